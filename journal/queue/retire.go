package queue

import (
	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Failure says why a write becomes a dead letter.
type Failure struct {
	Kind DeadKind
	// Status is the status with which upstream refused the write (HTTP's for BotWire); 0 if there is
	// none. The journal does not interpret it.
	Status int
	Reason string // for people; never holds a value
}

// Retiring ends an attempt at a write whose outcome is known. Unless a newer write is pending, it removes the
// pending record and adds a receipt. By its State, it also changes:
//
//	settled      what requests may have left upstream is forgotten, and the entry's older dead letters are marked
//	superseded   that is forgotten, too: upstream holds another host's state
//	dead         the write becomes a dead letter, and what may be upstream stays known
//
// A Retiring is applied under the readers' lock: a reader finds the entry pending before it and settled
// after it.
type Retiring struct {
	Hiding
	Write   Write
	State   record.ReceiptState // the outcome for the receipt
	Reason  string              // for people; empty if it has settled
	Hides   bool                // readers wait until the change is durable
	Failure Failure             // of a dead letter
	Left    []Content           // of a dead letter: what may be upstream
	// Outcome adds to the batch what the outcome says of the entry. newest is false if a newer write is pending, which has
	// already added the receipt. A dead letter that is not the newest changes nothing.
	Outcome func(tx *store.Tx, newest bool)
	Placed  func() // called once others may change the namespace

	queue    *Queue
	entry    *pending.Entry
	newest   bool
	keptLeft bool     // there is a record of what requests may have left
	marks    *marking // nil if the write has not settled
}

// Retire makes the change. The caller has called [Queue.Ready], and holds the namespace's copies lock.
func (q *Queue) Retire(r *Retiring) (err error) {
	r.queue = q
	if r.keptLeft, err = store.HoldsKey(q.store.DB(), record.EntryKey(record.LeftPrefix, r.Write.ID)); err != nil {
		return q.store.Owed(err)
	}
	if r.State == record.ReceiptSettled {
		if r.marks, err = q.Letters.mark(r.Write.ID, r.Write.Seq); err != nil {
			return err
		}
	}
	if err := q.store.Update(r); err != nil || r.marks == nil || !r.marks.more {
		return err
	}
	return q.Letters.markAll(r.Write.ID, r.Write.Seq)
}

// Fill runs in the order of all writes, so no newer write can come in between.
func (r *Retiring) Fill(tx *store.Tx) error {
	q, dead := r.queue, r.State == record.ReceiptDead
	q.Readers.RLock()
	r.entry = q.index.Get(r.Write.ID)
	latest, ok := r.entry.Latest()
	q.Readers.RUnlock()
	r.newest = ok && latest.Seq == r.Write.Seq // guard 12.3
	if dead && !r.newest {
		r.Placed() // nothing changes, and nobody waits for the sync with the lock
		return nil
	}
	if r.newest {
		tx.DeletePending(r.Write.ID, &latest)
	}
	if r.Outcome(tx, r.newest); dead {
		r.bury(tx, &latest)
	} else {
		r.forgetLeft(tx)
	}
	if r.marks != nil {
		r.marks.fill(tx) // guard 13.14
	}
	if r.newest {
		q.receipts.add(tx, &record.Receipt{
			ID: r.Write.ID, Seq: latest.Seq, Op: latest.Op, State: r.State,
			WrittenAt: latest.WrittenAt, SettledAt: max(store.UnixNow(), latest.WrittenAt), Reason: r.Reason,
		})
	}
	return nil
}

// forgetLeft forgets what requests may have left upstream.
func (r *Retiring) forgetLeft(tx *store.Tx) {
	if r.keptLeft || !r.newest { // otherwise a newer write may just have added it
		tx.Delete(record.EntryKey(record.LeftPrefix, r.Write.ID))
	}
}

// bury adds the dead letter.
func (r *Retiring) bury(tx *store.Tx, latest *record.Pending) {
	if len(r.Left) > 0 {
		setLeft(tx, r.Write.ID, r.Left) // guard 17.56
	}
	r.queue.Letters.set(tx, &record.Dead{ // guard 13.5
		ID: r.Write.ID, Pending: *latest, Value: r.Write.Value, Author: r.Write.Author,
		Kind: r.Failure.Kind, Status: r.Failure.Status, Error: r.Failure.Reason, RefusedAt: store.UnixNow(),
	})
}

// Applied removes the write from the pending set.
func (r *Retiring) Applied() {
	change := Change{ID: r.Write.ID, Seq: r.Write.Seq}
	q := r.queue
	switch {
	case r.newest:
		v, _ := r.entry.Visible()
		change.Ended = endingOf(&v, r.State) // guard 13.28
		change.Ended.Reason, change.Ended.Dropped = r.Reason, r.Failure.Kind == Dropped
		q.index.Drop(r.entry)
	case r.entry != nil:
		q.index.WaitsSince(r.entry, r.Write.UpdatedAt)
	}
	if r.Hides { // guard 7.8
		r.Hide(q.Readers, r.Write.ID, ID{Namespace: r.Write.Namespace})
	}
	q.Readers.Changed(change)
	r.Placed()
}
