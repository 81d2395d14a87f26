package journal

import (
	"errors"
	"fmt"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// Settle records that upstream has confirmed a write. The write becomes the entry's settled copy (a
// delete removes the copy), and leaves the pending set unless a newer write to the entry is pending.
// Settle marks the entry's older dead letters as superseded. It is durable when it returns.
func (j *Journal) Settle(w queue.Write) error {
	r := &queue.Retiring{Write: w, State: record.ReceiptSettled}
	return j.entries.Retire(r, "settling a write to", func() error {
		settled, err := j.entries.Settles(w)
		if err != nil {
			return err
		}
		forgets, err := r.ForgetsLeft()
		if err != nil {
			return err
		}
		marks, err := j.queue.Letters.Mark(w.ID, w.Seq)
		if err != nil {
			return err
		}
		r.Outcome = func(tx *store.Tx, last *record.Pending) {
			settled(tx, last == nil)
			forgets(tx)
			marks.Fill(tx) // guard 13.14
		}
		if err := j.store.Update(r); err != nil || !marks.More {
			return err
		}
		return j.queue.Letters.MarkAll(w.ID, w.Seq)
	})
}

// Failure says why a write becomes a dead letter.
type Failure struct {
	Kind queue.DeadKind
	// Status is the status with which upstream refused the write (HTTP's for BotWire); 0 if there is
	// none. The journal does not interpret it.
	Status int
	Reason string // for people; never holds a value
}

// DeadLetter makes a pending write a dead letter: upstream refused it for good, or a person dropped it.
// If a newer write to the entry is pending, the write was superseded and leaves no dead letter.
// DeadLetter is durable when it returns.
//
// Until then, readers of the entry wait: no answer may show them an older state that a power cut could
// undo (contract 7). If upstream may hold the write, or an older one that has not settled, DeadLetter removes the
// settled copy and its row, and what may be there stays known: see [Journal.Left].
func (j *Journal) DeadLetter(w queue.Write, why Failure) error {
	r := &queue.Retiring{
		Write: w, Waits: true, State: record.ReceiptDead, Reason: why.Reason, Dropped: why.Kind == queue.Dropped,
	}
	return j.entries.Retire(r, "dead-lettering a write to", func() error {
		left, known, err := j.Left(w)
		if err != nil {
			return err
		}
		forget := func(*store.Tx) {}
		if len(left) > 0 || !known { // guard 7.9
			if forget, err = j.entries.Forget(w.ID); err != nil {
				return err
			}
		}
		r.Outcome = func(tx *store.Tx, last *record.Pending) {
			if last == nil { // nothing changes, and nobody waits for the sync with the lock
				r.Placed()
				return
			}
			if forget(tx); len(left) > 0 {
				queue.SetLeft(tx, w.ID, left) // guard 17.56
			}
			j.queue.Letters.Set(tx, &record.Dead{ // guard 13.5
				ID: w.ID, Pending: *last, Value: w.Value, Author: w.Author, Kind: why.Kind, Status: why.Status, Error: why.Reason, RefusedAt: store.UnixNow(),
			})
		}
		return j.store.Update(r)
	})
}

// IsDead reports whether write seq to an entry, or a newer one, has ended without reaching upstream, durably: it is a dead
// letter, or it has lost a conflict between hosts. state is [ReceiptDead] or [ReceiptSuperseded]. IsDead reads only what has
// ended from seq on.
func (j *Journal) IsDead(id queue.ID, seq uint64) (state queue.ReceiptState, dead bool, err error) {
	if err := j.store.Acquire(); err != nil {
		return 0, false, err
	}
	defer j.store.Release()
	state = queue.ReceiptSuperseded
	if dead, err = j.entries.HasLost(id, seq); err == nil && !dead {
		state = queue.ReceiptDead
		err = store.ScanDead(j.store.DB(), seq, func(l *record.Dead) error {
			if l.ID == id {
				return store.ErrEnough
			}
			return nil
		})
		dead = errors.Is(err, store.ErrEnough)
	}
	if dead {
		err = j.store.AwaitDurable() // guard 7.5
	}
	if err != nil {
		return 0, false, j.store.Owed(fmt.Errorf("how write %d to %s has ended: %w", seq, id, err))
	}
	return state, dead, nil
}
