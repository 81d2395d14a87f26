package journal

import (
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// WriteThrough ends doubts about entries without a pending write. The methods may be called concurrently.
type WriteThrough struct {
	store   *store.Store
	pending *pendingSet
	copies  *copies
}

// Doubt records that upstream may hold, or may yet carry out, a write to the entry that is not
// journaled. The caller has marked the entry as sent: see [Journal.MarkSent]. The doubt ends when a
// later write settles, or with EndDoubt.
func (t *WriteThrough) Doubt(id ID) {
	t.copies.doubts.add(id)
	readers := t.pending.readers
	readers.Lock()
	defer readers.Unlock()
	readers.changed(Change{ID: id})
}

// EndDoubt ends the doubt about an entry without a pending write: upstream can carry out nothing more.
// The entry's copy may be older than upstream's state, so it counts as very old until upstream is
// asked. The same goes for a listing that lacks the entry. EndDoubt is durable when it returns.
func (t *WriteThrough) EndDoubt(id ID) error {
	return t.end(&retiring{w: Write{ID: id}}, func(past settledCopy) (func(*store.Tx), error) {
		switch {
		case !past.kept:
			return t.doubtAbsence(id) // guard 9.19
		case !past.intact:
			return func(tx *store.Tx) {
				tx.Delete(record.EntryKey(record.SettledPrefix, id))
			}, nil
		}
		return func(tx *store.Tx) {
			t.copies.set(tx, id, &past.Observation, 0, t.copies.versionOf(&past, past.Value))
			t.copies.seen.confirm(id, 0)
		}, nil
	})
}

// end ends a doubt. forget returns the change to the settled copy.
func (t *WriteThrough) end(r *retiring, forget func(past settledCopy) (func(*store.Tx), error)) error {
	return t.copies.retire(r, "ending the doubt about", func() error {
		past, err := t.copies.read(r.w.ID)
		if err != nil {
			return err
		}
		fill, err := forget(past)
		if err != nil {
			return err
		}
		r.fill = func(tx *store.Tx, _ *record.Version) { fill(tx) }
		return t.store.Update(r)
	})
}

// doubtAbsence marks the namespace's listing incomplete if it lacks the entry: it no longer proves
// that upstream does not hold the entry. The caller holds the copies lock.
func (t *WriteThrough) doubtAbsence(id ID) (fill func(*store.Tx), err error) {
	_, listed, _, err := readListed(t.copies, t.store.DB(), id)
	if err != nil {
		return nil, err
	}
	if listed {
		return func(*store.Tx) {}, nil
	}
	row, err := t.copies.forgetRow(id)
	if err != nil {
		return nil, err
	}
	return row.fill, nil
}
