package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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

// set adds a dead letter, or changes it, in the store's order.
func (d *Letters) set(tx *store.Tx, l *record.Dead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tx.SetDead(l)
	d.insert(l)
}

// remove removes a dead letter, in the store's order.
func (d *Letters) remove(tx *store.Tx, l *record.Dead) {
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

// marking marks dead letters of an entry as superseded by a later write that has settled.
type marking struct {
	index   *Letters
	by      uint64
	letters []record.Dead
	more    bool // the entry has more dead letters than fit into one batch
}

// Mark prepares a marking. It reads the dead letters to mark.
func (d *Letters) mark(id ID, by uint64) (*marking, error) {
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

// Fill adds the marks to a transaction. It skips dead letters that were retried or discarded meanwhile.
func (m *marking) fill(tx *store.Tx) {
	for i := range m.letters {
		if l := &m.letters[i]; m.index.isUnmarked(l) {
			m.index.remove(tx, l)
			l.SupersededBy = m.by
			m.index.set(tx, l)
		}
	}
}

// MarkAll marks an entry's dead letters in batches of their own.
func (d *Letters) markAll(id ID, by uint64) error {
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
			if err := d.markAll(id, by); err != nil {
				return err
			}
		}
	}
	return nil
}

// DeadLetters returns up to limit dead letters with sequence numbers above after, oldest first, without
// values. All of them are durable.
func (q *Queue) DeadLetters(after uint64, limit int) ([]DeadLetter, error) {
	if err := q.store.Acquire(); err != nil {
		return nil, err
	}
	defer q.store.Release()
	if after == math.MaxUint64 {
		return nil, nil
	}
	var letters []DeadLetter
	err := store.ScanDead(q.store.DB(), after+1, func(l *record.Dead) error {
		if len(letters) >= limit {
			return store.ErrEnough
		}
		letter := letterOf(l)
		letter.Value = ""
		letters = append(letters, letter)
		return nil
	})
	if err == nil || errors.Is(err, store.ErrEnough) { // guard 7.3
		err = q.store.AwaitDurable()
	}
	if err != nil {
		return nil, q.store.Owed(fmt.Errorf("dead letters: %w", err))
	}
	return letters, nil
}

func letterOf(l *record.Dead) DeadLetter {
	return DeadLetter{
		Write: writeOf(l.ID, &l.Pending, l.Value, l.Author), Kind: l.Kind, SupersededBy: l.SupersededBy,
		Status: l.Status, Error: l.Error, RefusedAt: l.RefusedAt,
	}
}

// ReadDeadLetter returns one dead letter with its value. The dead letter is durable. Errors:
// [ErrNoDeadLetter].
func (q *Queue) ReadDeadLetter(seq uint64) (DeadLetter, error) {
	if err := q.store.Acquire(); err != nil {
		return DeadLetter{}, err
	}
	defer q.store.Release()
	l, err := q.Letters.Find(seq)
	if err == nil {
		err = q.store.AwaitDurable() // guard 7.4
	}
	if err != nil {
		return DeadLetter{}, err
	}
	return letterOf(&l), nil
}

// Discard removes a dead letter for good. Its receipt stays. Errors: [ErrNoDeadLetter].
func (q *Queue) Discard(seq uint64) error {
	return q.store.Use(func() error { return q.discard(seq) })
}

func (q *Queue) discard(seq uint64) error {
	l, err := q.Letters.Find(seq)
	if err != nil {
		return err
	}
	return q.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		if err := stillDead(tx, seq); err != nil {
			return err
		}
		q.Letters.remove(tx, &l)
		return nil
	}))
}

func stillDead(tx *store.Tx, seq uint64) error {
	r, err := tx.Reader()
	if err == nil {
		_, err = ReadDead(r, seq)
	}
	return err
}

// Find reads a dead letter. That there is none is durable, too (contract 7): no power cut brings back a letter of which
// somebody was told that it is gone. Errors: [ErrNoDeadLetter]; damage ends the process.
func (d *Letters) Find(seq uint64) (record.Dead, error) {
	l, err := d.read(seq)
	if errors.Is(err, ErrNoDeadLetter) { // guard 7.60
		if err := d.store.AwaitDurable(); err != nil {
			return l, err
		}
	}
	return l, err
}

// read reads a dead letter. Damage ends the process.
func (d *Letters) read(seq uint64) (record.Dead, error) {
	l, err := ReadDead(d.store.DB(), seq)
	return l, d.store.Owed(err)
}

// ReadDead reads a dead letter. Errors: [ErrNoDeadLetter], [record.ErrCorrupt], and those of the file system.
func ReadDead(r pebble.Reader, seq uint64) (l record.Dead, err error) {
	ok, err := store.Get(r, record.DeadKey(seq), func(body []byte) (err error) {
		l, err = record.DecodeDead(seq, body)
		return err
	})
	if err != nil {
		return l, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if !ok {
		return l, fmt.Errorf("%w: %d", ErrNoDeadLetter, seq)
	}
	return l, nil
}
