package journal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// ErrAbsent says that a delete that was not journaled found no entry upstream.
var ErrAbsent = errors.New("upstream does not hold the entry")

// doubts are the entries of which upstream may hold a write that was sent and never
// journaled, or may yet carry one out. While an entry is among them, its settled copy
// counts as very old: readers ask upstream.
type doubts struct {
	j *Journal

	some atomic.Int32 // the number of entries: most of the time 0, and readers take no lock
	mu   sync.Mutex   // guards of
	of   map[ID]struct{}
}

func (d *doubts) add(id ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = make(map[ID]struct{})
	}
	d.of[id] = struct{}{}
	d.some.Store(int32(len(d.of)))
}

func (d *doubts) remove(id ID) {
	if d.some.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, id)
	d.some.Store(int32(len(d.of)))
}

func (d *doubts) has(id ID) bool {
	if d.some.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.of[id]
	return ok
}

// in returns the entries of a namespace.
func (d *doubts) in(namespace string) (ids []ID) {
	if d.some.Load() == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.of {
		if id.Namespace == namespace {
			ids = append(ids, id)
		}
	}
	return ids
}

// recall takes in the entries of which an earlier process did not see an answer, and that
// have no pending write. It looks into the store and leaves the index alone: nobody has
// subscribed yet, and an entry that the index knows is not announced again.
func (d *doubts) recall() error {
	ids, err := d.j.InDoubt()
	for _, id := range ids {
		isPending := false
		err := store.ScanPending(d.j.store.DB(), record.PendingOf(id), func(record.ID, record.Version) error {
			isPending = true
			return nil
		})
		if err != nil {
			return err
		}
		if !isPending {
			d.add(id)
		}
	}
	return err
}

// longAgo is when a copy of an entry in doubt counts as confirmed. It is not the zero time,
// which a pending write has.
var longAgo = time.Unix(0, 0)

// Doubt notes that upstream may hold, or yet carry out, a write to the entry that is not
// journaled. The entry is marked as sent: see [Journal.MarkSent]. The doubt ends when a
// later write settles, and with Lapse.
func (d *doubts) Doubt(id ID) {
	d.add(id)
	readers := d.j.pending.readers
	readers.Lock()
	defer readers.Unlock()
	readers.changed(Change{ID: id})
}

// Lapse ends a doubt about an entry with no pending write: nothing more can be carried out.
// The copy of the entry, if there is one, may be from before. It counts as very old until
// upstream is asked. Lapse is durable when it returns.
func (d *doubts) Lapse(id ID) error {
	return d.end(Write{ID: id}, func(past settledCopy) (func(*store.Tx), error) {
		copies := d.j.copies
		switch {
		case !past.kept:
			return func(*store.Tx) {}, nil
		case !past.intact, copies.store.Low(int64(len(past.Value))):
			return func(tx *store.Tx) { tx.Delete(record.EntryKey(record.SettledPrefix, id)) }, nil
		}
		return func(tx *store.Tx) {
			copies.set(tx, id, &past.Observation, 0)
			copies.seen.confirm(id, 0)
		}, nil
	})
}

// Overtaken notes that upstream holds a write to the entry which the journal had no room
// for. The settled copy goes, and so does the pending write of that sequence number, if it is
// the entry's newest. Overtaken is durable when it returns.
func (d *doubts) Overtaken(id ID, seq uint64) error {
	return d.end(Write{ID: id, Seq: seq}, func(settledCopy) (func(*store.Tx), error) { return d.j.copies.forget(id) })
}

// end ends a doubt. forget says what becomes of the settled copy.
func (d *doubts) end(w Write, forget func(past settledCopy) (func(*store.Tx), error)) error {
	j := d.j
	if err := j.store.Acquire(); err != nil {
		return err
	}
	defer j.store.Release()
	if err := j.pending.ready(w.ID); err != nil {
		return err
	}
	unlock := j.copies.lock(w.Namespace)
	defer unlock()
	past, err := j.copies.read(w.ID)
	var fill func(*store.Tx)
	if err == nil {
		fill, err = forget(past)
	}
	if err == nil {
		r := &retiring{Journal: j, w: w, unlock: unlock, fill: func(tx *store.Tx, _ *record.Version) { fill(tx) }}
		err = j.store.Update(r)
	}
	if err != nil {
		return fmt.Errorf("ending the doubt about %s: %w", w.ID, err)
	}
	return nil
}

// Admits is [ErrFull] if the journal would refuse the write now for want of room, or
// another reason for which it takes no writes; else nil.
func (d *doubts) Admits(w NewWrite) error {
	j := d.j
	if err := j.store.Acquire(); err != nil {
		return err
	}
	defer j.store.Release()
	if err := j.pending.ready(w.ID); err != nil {
		return err
	}
	var err error
	j.store.InOrder(func(t record.Totals) {
		j.pending.readers.RLock()
		latest, exists := j.pending.index.Get(w.ID).Latest()
		j.pending.readers.RUnlock()
		err = j.pending.roomFor(t, &appending{NewWrite: w}, latest, exists)
	})
	j.full.refuse(err)
	return err
}
