package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// markBytes bounds the bytes of dead letters that one batch marks. A batch marks at least one.
const markBytes = 256 << 10

// Letters indexes in memory which entries have dead letters, so that settling a write need not search
// for them. Every change of the dead letters updates it, in the store's order. Its lists are in order.
type Letters struct {
	store *store.Store

	mu       sync.Mutex      // guards the fields below
	open     []uint64        // dead letters that need a decision
	openIn   map[string]int  // how many of them each namespace has
	unmarked map[ID][]uint64 // dead letters not marked as superseded
}

func newLetters(s *store.Store) *Letters {
	return &Letters{store: s, openIn: make(map[string]int), unmarked: make(map[ID][]uint64)}
}

// load reads the dead letters of a store that nothing else uses yet.
func (d *Letters) load() error {
	return store.ScanDead(d.store.DB(), 0, func(l *record.Dead) error {
		d.insert(l)
		return nil
	})
}

// Open counts the dead letters that need a decision, together and by namespace, and returns the number of the oldest one.
func (d *Letters) Open() (open int, in map[string]int, oldest uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.open) > 0 {
		oldest = d.open[0]
	}
	return len(d.open), maps.Clone(d.openIn), oldest
}

// Set adds a dead letter, or changes it, in the store's order.
func (d *Letters) Set(tx *store.Tx, l *record.Dead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tx.SetDead(l)
	d.insert(l)
}

// Remove removes a dead letter, in the store's order.
func (d *Letters) Remove(tx *store.Tx, l *record.Dead) {
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
func (d *Letters) insert(l *record.Dead) {
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
func (d *Letters) older(id ID, seq uint64) []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, _ := slices.BinarySearch(d.unmarked[id], seq)
	return slices.Clone(d.unmarked[id][:at])
}

func (d *Letters) isUnmarked(l *record.Dead) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.unmarked[l.ID], l.Seq)
}

// Marking marks dead letters of an entry as superseded by a later write that has settled.
type Marking struct {
	index   *Letters
	by      uint64
	letters []record.Dead
	More    bool // the entry has more dead letters than fit into one batch
}

// Mark prepares a marking. It reads the dead letters to mark.
func (d *Letters) Mark(id ID, by uint64) (*Marking, error) {
	m := &Marking{index: d, by: by}
	size := int64(0)
	for _, seq := range d.older(id, by) {
		if m.More = size >= markBytes; m.More {
			break
		}
		l, err := d.Read(seq)
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

// Fill adds the marks to a transaction. It skips dead letters that were retried or discarded meanwhile.
func (m *Marking) Fill(tx *store.Tx) {
	for i := range m.letters {
		if l := &m.letters[i]; m.index.isUnmarked(l) {
			m.index.Remove(tx, l)
			l.SupersededBy = m.by
			m.index.Set(tx, l)
		}
	}
}

// MarkAll marks an entry's dead letters in batches of their own.
func (d *Letters) MarkAll(id ID, by uint64) error {
	for more := true; more; {
		m, err := d.Mark(id, by)
		if err != nil {
			return err
		}
		err = d.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			m.Fill(tx)
			return nil
		}))
		if err != nil {
			return err
		}
		more = m.More
	}
	return nil
}

// Check compares the index with the store.
func (d *Letters) Check(db pebble.Reader) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := newLetters(nil)
	err := store.ScanDead(db, 0, func(l *record.Dead) error {
		want.insert(l)
		return nil
	})
	if err == nil && (!slices.Equal(want.open, d.open) || !maps.Equal(want.openIn, d.openIn) ||
		!maps.EqualFunc(want.unmarked, d.unmarked, slices.Equal)) {
		err = fmt.Errorf("of the dead letters, %v %v %v are known, and the store has %v %v %v",
			d.open, d.openIn, d.unmarked, want.open, want.openIn, want.unmarked)
	}
	return err
}

// MarkSettled marks, after a start, superseded dead letters that have no mark yet, because the process
// ended before it had marked all. settled returns the number of an entry's write that has settled last.
func (d *Letters) MarkSettled(ctx context.Context, settled func(ID) (seq uint64, err error)) error {
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
		by, err := settled(id)
		if err != nil {
			return err
		}
		if len(d.older(id, by)) > 0 { // guard 13.15
			if err := d.MarkAll(id, by); err != nil {
				return err
			}
		}
	}
	return nil
}
