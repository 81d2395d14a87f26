package journal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// markBytes bounds the bytes of dead letters that one batch marks. A batch marks at least one.
const markBytes = 256 << 10

// deadIndex indexes in memory which entries have dead letters, so that settling a write need not search
// for them. Every change of the dead letters updates it, in the store's order. Its lists are in order.
type deadIndex struct {
	store *store.Store

	mu       sync.Mutex      // guards the fields below
	open     []uint64        // dead letters that need a decision
	openIn   map[string]int  // how many of them each namespace has
	unmarked map[ID][]uint64 // dead letters not marked as superseded
}

func emptyDeadIndex(s *store.Store) *deadIndex {
	return &deadIndex{store: s, openIn: make(map[string]int), unmarked: make(map[ID][]uint64)}
}

// load reads the dead letters of a store that nothing else uses yet.
func (d *deadIndex) load() error {
	return store.ScanDead(d.store.DB(), 0, func(l *record.Dead) error {
		d.insert(l)
		return nil
	})
}

// count fills in the numbers of dead letters by what becomes of them.
func (d *deadIndex) count(st *Stats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	st.OpenDeadLetters, st.OpenIn = len(d.open), maps.Clone(d.openIn)
	if len(d.open) > 0 {
		st.OldestOpen = d.open[0]
	}
}

func (d *deadIndex) set(tx *store.Tx, l *record.Dead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tx.SetDead(l)
	d.insert(l)
}

func (d *deadIndex) remove(tx *store.Tx, l *record.Dead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tx.DeleteDead(l)
	if _, isOpen := slices.BinarySearch(d.open, l.Seq); isOpen {
		d.open = without(d.open, l.Seq)
		if d.openIn[l.Namespace]--; d.openIn[l.Namespace] == 0 {
			delete(d.openIn, l.Namespace)
		}
	}
	if d.unmarked[l.ID] = without(d.unmarked[l.ID], l.Seq); len(d.unmarked[l.ID]) == 0 {
		delete(d.unmarked, l.ID)
	}
}

// insert adds a dead letter that is not in the index. The caller holds mu.
func (d *deadIndex) insert(l *record.Dead) {
	if l.Kind == Refused && l.SupersededBy == 0 {
		d.open = with(d.open, l.Seq)
		d.openIn[l.Namespace]++
	}
	if l.SupersededBy == 0 {
		d.unmarked[l.ID] = with(d.unmarked[l.ID], l.Seq)
	}
}

func with(seqs []uint64, seq uint64) []uint64 {
	at, _ := slices.BinarySearch(seqs, seq)
	return slices.Insert(seqs, at, seq)
}

func without(seqs []uint64, seq uint64) []uint64 {
	switch at, ok := slices.BinarySearch(seqs, seq); {
	case !ok:
		return seqs
	case at == 0: // the oldest goes first when there are many: nothing is moved
		return seqs[1:]
	default:
		return slices.Delete(seqs, at, at+1)
	}
}

// older returns the entry's unmarked dead letters that are older than a write.
func (d *deadIndex) older(id ID, seq uint64) []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, _ := slices.BinarySearch(d.unmarked[id], seq)
	return slices.Clone(d.unmarked[id][:at])
}

func (d *deadIndex) isUnmarked(l *record.Dead) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.unmarked[l.ID], l.Seq)
}

// marking marks dead letters of an entry as superseded by a later write that has settled.
type marking struct {
	index   *deadIndex
	by      uint64
	letters []record.Dead
	more    bool // the entry has more dead letters than fit into one batch
}

// mark prepares a marking. It reads the dead letters to mark.
func (d *deadIndex) mark(id ID, by uint64) (*marking, error) {
	m := &marking{index: d, by: by}
	size := int64(0)
	for _, seq := range d.older(id, by) {
		if m.more = size >= markBytes; m.more {
			break
		}
		l, err := d.read(seq)
		if errors.Is(err, ErrNoDeadLetter) { // somebody has just retried or discarded it
			continue
		}
		if err != nil {
			return nil, err
		}
		m.letters = append(m.letters, l)
		size += l.Size()
	}
	return m, nil
}

// fill adds the marks to a transaction. It skips dead letters that were retried or discarded meanwhile.
func (m *marking) fill(tx *store.Tx) {
	for i := range m.letters {
		if l := &m.letters[i]; m.index.isUnmarked(l) {
			m.index.remove(tx, l)
			l.SupersededBy = m.by
			m.index.set(tx, l)
		}
	}
}

// markAll marks an entry's dead letters in batches of their own.
func (d *deadIndex) markAll(id ID, by uint64) error {
	for more := true; more; {
		m, err := d.mark(id, by)
		if err != nil {
			return err
		}
		err = d.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			m.fill(tx)
			return nil
		}))
		if err != nil {
			return err
		}
		more = m.more
	}
	return nil
}

// markSettled marks, after a start, superseded dead letters that have no mark yet, because the process
// ended before it had marked all. The settled copy shows which write settled.
func (d *deadIndex) markSettled(ctx context.Context, c *copies) error {
	d.mu.Lock()
	ids := slices.Collect(maps.Keys(d.unmarked))
	d.mu.Unlock()
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.store.Critical() {
			return nil // the entry's next settled write or the next start marks them
		}
		unlock := c.lock(id.Namespace)
		head, err := c.head(id)
		unlock()
		if err != nil {
			return err
		}
		if by := head.Origin.Seq; len(d.older(id, by)) > 0 { // guard 13.15
			if err := d.markAll(id, by); err != nil {
				return err
			}
		}
	}
	return nil
}
