package queue

import (
	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Retiring ends an attempt at a write whose outcome is known. Unless a newer write is pending, it removes the
// pending record and adds a receipt.
//
// A Retiring is applied under the readers' lock: a reader finds the entry pending before it and settled
// after it.
type Retiring struct {
	Hiding
	Queue   *Queue
	Write   Write
	State   record.ReceiptState // the outcome for the receipt
	Reason  string
	Dropped bool // a person has dropped it
	Waits   bool // readers wait until the change is durable
	// Outcome adds the other records of the outcome. It gets no version if a newer write is pending, which has already
	// added the receipt.
	Outcome func(tx *store.Tx, last *record.Pending)
	Placed  func() // called once others may change the namespace

	entry *pending.Entry
	last  bool // no newer write is pending
}

// ForgetsLeft returns the change that forgets what requests may have left upstream: upstream holds the write now, or
// another host's.
func (r *Retiring) ForgetsLeft() (func(tx *store.Tx), error) {
	key := record.EntryKey(record.LeftPrefix, r.Write.ID)
	kept, err := store.HoldsKey(r.Queue.store.DB(), key)
	return func(tx *store.Tx) {
		if kept || !r.last { // otherwise a newer write may just have added it
			tx.Delete(key)
		}
	}, err
}

// Fill runs in the order of all writes, so no newer write can come in between.
func (r *Retiring) Fill(tx *store.Tx) error {
	q := r.Queue
	q.Readers.RLock()
	r.entry = q.index.Get(r.Write.ID)
	latest, ok := r.entry.Latest()
	q.Readers.RUnlock()
	if r.last = ok && latest.Seq == r.Write.Seq; !r.last { // guard 12.3
		r.Outcome(tx, nil)
		return nil
	}
	tx.DeletePending(r.Write.ID, &latest)
	r.Outcome(tx, &latest)
	q.receipts.add(tx, &record.Receipt{
		ID: r.Write.ID, Seq: latest.Seq, Op: latest.Op, State: r.State,
		WrittenAt: latest.WrittenAt, SettledAt: max(store.UnixNow(), latest.WrittenAt), Reason: r.Reason,
	})
	return nil
}

// Applied removes the write from the pending set.
func (r *Retiring) Applied() {
	change := Change{ID: r.Write.ID, Seq: r.Write.Seq}
	q := r.Queue
	switch {
	case r.last:
		v, _ := r.entry.Visible()
		change.Ended = endingOf(&v, r.State) // guard 13.28
		change.Ended.Reason, change.Ended.Dropped = r.Reason, r.Dropped
		q.index.Drop(r.entry)
	case r.entry != nil:
		q.index.WaitsSince(r.entry, r.Write.UpdatedAt)
	}
	if r.Waits { // guard 7.8
		r.Hide(q.Readers, r.Write.ID, ID{Namespace: r.Write.Namespace})
	}
	q.Readers.Changed(change)
	r.Placed()
}
