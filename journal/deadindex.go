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

// isOpen reports whether a dead letter needs a person's decision.
func isOpen(l *record.Dead) bool { return l.Kind == Refused && l.SupersededBy == 0 }

// markBytes bounds the bytes of dead letters that one batch marks. A batch marks at least one.
const markBytes = 256 << 10

// deadIndex indexes in memory which entries have dead letters, so that settling a write need not search
// for them. Every change of the dead letters updates it, in the store's order.
type deadIndex struct {
	store *store.Store

	mu       sync.Mutex      // guards the fields below
	known    map[uint64]bool // dead letters, and whether each is open
	open     int
	first    uint64          // the oldest open one; 0 if it must be searched for
	unmarked map[ID][]uint64 // dead letters not marked as superseded
	theirs   map[ID][]uint64 // dead letters that hold other hosts' states
	aged     []uint64        // dead letters of conflicts between hosts, the oldest first
	// After a start, changed holds the dead letters changed since then, and settled holds the writes
	// settled since then. Both are nil once the index has been rebuilt.
	changed map[uint64]struct{}
	settled map[ID]uint64
}

func newDeadIndex(s *store.Store) *deadIndex {
	return &deadIndex{
		store: s, known: make(map[uint64]bool), unmarked: make(map[ID][]uint64), theirs: make(map[ID][]uint64),
		changed: make(map[uint64]struct{}), settled: make(map[ID]uint64),
	}
}

// countOpen counts the known open dead letters. After the rebuild, all are known.
func (d *deadIndex) countOpen() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// oldestOpen returns the oldest known open dead letter, or 0. It searches all dead letters only after
// the previous oldest one has gone.
func (d *deadIndex) oldestOpen() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == 0 || d.first != 0 {
		return d.first
	}
	for seq, open := range d.known {
		if open && (d.first == 0 || seq < d.first) {
			d.first = seq
		}
	}
	return d.first
}

// set adds a dead letter to a transaction. It replaces the former version if the index knows the
// letter.
func (d *deadIndex) set(tx *store.Tx, l *record.Dead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.forget(l) {
		tx.DeleteDead(l) // of the same size
	}
	tx.SetDead(l)
	d.insert(l)
}

// remove removes a dead letter in a transaction.
func (d *deadIndex) remove(tx *store.Tx, l *record.Dead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tx.DeleteDead(l)
	d.forget(l)
}

// forget removes a dead letter from the index, and reports whether the index knew it. The caller holds
// mu.
func (d *deadIndex) forget(l *record.Dead) (known bool) {
	if d.changed != nil {
		d.changed[l.Seq] = struct{}{}
	}
	open, known := d.known[l.Seq]
	if !known {
		return false
	}
	delete(d.known, l.Seq)
	if open {
		d.open--
	}
	if d.first == l.Seq {
		d.first = 0
	}
	drop(d.unmarked, l)
	if l.Theirs {
		drop(d.theirs, l)
	}
	if l.InConflict() {
		if at, ok := slices.BinarySearch(d.aged, l.Seq); ok {
			d.aged = slices.Delete(d.aged, at, at+1)
		}
	}
	return true
}

// drop removes a dead letter from a map of entries.
func drop(from map[ID][]uint64, l *record.Dead) {
	left := slices.DeleteFunc(from[l.ID], func(seq uint64) bool { return seq == l.Seq })
	if from[l.ID] = left; len(left) == 0 {
		delete(from, l.ID)
	}
}

// insert adds a dead letter that is not in the index. The caller holds mu.
func (d *deadIndex) insert(l *record.Dead) {
	open := isOpen(l)
	if d.known[l.Seq] = open; open {
		if d.open == 0 || l.Seq < d.first {
			d.first = l.Seq
		}
		d.open++
	}
	if l.SupersededBy == 0 {
		d.unmarked[l.ID] = append(d.unmarked[l.ID], l.Seq)
	}
	if l.Theirs {
		d.theirs[l.ID] = append(d.theirs[l.ID], l.Seq)
	}
	if l.InConflict() {
		at, _ := slices.BinarySearch(d.aged, l.Seq)
		d.aged = slices.Insert(d.aged, at, l.Seq)
	}
}

// theirsOf returns the dead letters that hold other hosts' states of an entry. complete says that the
// index knows all of them.
func (d *deadIndex) theirsOf(id ID) (seqs []uint64, complete bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.theirs[id]), d.changed == nil
}

// oldestConflict returns the oldest dead letter of a conflict between hosts, and whether there are
// others.
func (d *deadIndex) oldestConflict() (oldest uint64, others bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.aged) == 0 {
		return 0, false
	}
	return d.aged[0], len(d.aged) > 1
}

// restore adds a dead letter that the rebuild has found in its snapshot.
func (d *deadIndex) restore(l *record.Dead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, changed := d.changed[l.Seq]
	_, known := d.known[l.Seq] // by an earlier rebuild that was cut off
	if d.changed != nil && !changed && !known {
		d.insert(l)
	}
}

// complete notes that the rebuild has found all dead letters. It returns the entries with dead letters
// for which a write settled meanwhile, each with that write's sequence number.
func (d *deadIndex) complete() (settled map[ID]uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	settled = d.settled
	d.changed, d.settled = nil, nil
	maps.DeleteFunc(settled, func(id ID, _ uint64) bool { return len(d.unmarked[id]) == 0 })
	return settled
}

// older returns the entry's unmarked dead letters that are older than a write. settles says that the
// write is about to settle.
func (d *deadIndex) older(id ID, seq uint64, settles bool) (older []uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if settles && d.settled != nil {
		d.settled[id] = max(d.settled[id], seq)
	}
	for _, dead := range d.unmarked[id] {
		if dead < seq {
			older = append(older, dead)
		}
	}
	return older
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
func (d *deadIndex) mark(id ID, by uint64, settles bool) (*marking, error) {
	m := &marking{index: d, by: by}
	size := int64(0)
	for _, seq := range d.older(id, by, settles) {
		if m.more = size >= markBytes; m.more {
			break
		}
		l, err := readDead(d.store.DB(), seq)
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
			l.SupersededBy = m.by
			m.index.set(tx, l)
		}
	}
}

// markAll marks an entry's dead letters in batches of their own.
func (d *deadIndex) markAll(id ID, by uint64) error {
	for more := true; more; {
		m, err := d.mark(id, by, false)
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

// markSettled marks, after a start, superseded dead letters that have no mark yet: the later write
// settled before the index was complete, or under an older botwired. The settled copy shows which write
// settled.
func (d *deadIndex) markSettled(ctx context.Context, c *copies) error {
	settled := d.complete()
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
		if by := max(head.Origin.Seq, settled[id]); len(d.older(id, by, false)) > 0 { // guard 13.15
			if err := d.markAll(id, by); err != nil {
				return err
			}
		}
	}
	return nil
}
