package journal

import (
	"errors"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// ErrAbsent says that a delete that was not journaled found no entry upstream.
var ErrAbsent = errors.New("upstream does not hold the entry")

// WriteThrough serves writes that go upstream before they are journaled. A caller checks
// [WriteThrough.Admits], marks the entry ([Journal.MarkSent]), sends the write, and journals it with
// NewWrite.Held once upstream has confirmed it. A failed write leaves no record and no receipt, but the
// entry may be in doubt. The methods may be called concurrently.
type WriteThrough struct {
	store   *store.Store
	pending *pendingSet
	copies  *copies
	full    *fullness
}

// Admits returns the error with which [Journal.Append] would refuse the write now: [ErrFull],
// *[NamespaceFullError], or another reason why the journal takes no writes. It does not call the
// write's If.
func (t *WriteThrough) Admits(w NewWrite) error {
	if err := t.store.Acquire(); err != nil {
		return err
	}
	defer t.store.Release()
	if err := t.pending.ready(w.ID); err != nil {
		return err
	}
	a := &appending{copies: t.copies, NewWrite: w, sizing: sizing{trial: true}}
	err := t.copies.sizes.fits(w.Namespace, func() error {
		err := t.copies.prepare(a)
		if err == nil {
			t.store.InOrder(func(totals record.Totals) {
				latest, exists := t.pending.latest(w.ID)
				if err = t.pending.roomFor(totals, a, latest, exists); err == nil {
					err = t.copies.admitSize(a, &latest, exists)
				}
			})
		}
		return err
	})
	t.full.found(err, true)
	return err
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

// Supersede records that upstream holds a write to the entry for which the journal had no room. It
// removes the settled copy. It also removes the pending write with sequence number seq if that is the
// entry's newest; its receipt says superseded. Supersede is durable when it returns.
func (t *WriteThrough) Supersede(id ID, seq uint64) error {
	r := &retiring{
		w: Write{ID: id, Seq: seq}, state: record.ReceiptSuperseded,
		reason: "upstream holds a later write, for which the journal had no room",
	}
	return t.end(r, func(past settledCopy) (func(*store.Tx), error) {
		return t.copies.forget(id)
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
