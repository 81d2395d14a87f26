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
func (j *Journal) Settle(w Write) error {
	r := &queue.Retiring{Write: w, State: record.ReceiptSettled}
	return j.entries.Retire(r, "settling a write to", func() (err error) {
		r.Outcome, err = j.entries.Settles(w)
		return err
	})
}

// DeadLetter makes a pending write a dead letter: upstream refused it for good, or a person dropped it.
// If a newer write to the entry is pending, the write was superseded and leaves no dead letter.
// DeadLetter is durable when it returns.
//
// Until then, readers of the entry wait: no answer may show them an older state that a power cut could
// undo (contract 7). If upstream may hold the write, or an older one that has not settled, DeadLetter removes the
// settled copy and its row, and what may be there stays known: see [Journal.Left].
func (j *Journal) DeadLetter(w Write, why Failure) error {
	r := &queue.Retiring{Write: w, State: record.ReceiptDead, Reason: why.Reason, Failure: why, Hides: true}
	return j.entries.Retire(r, "dead-lettering a write to", func() error {
		left, known, err := j.queue.LeftOf(w)
		if err != nil {
			return err
		}
		forget := func(*store.Tx) {}
		if len(left) > 0 || !known { // guard 7.9
			if forget, err = j.entries.Forget(w.ID); err != nil {
				return err
			}
		}
		r.Left, r.Outcome = left, func(tx *store.Tx, _ bool) { forget(tx) }
		return nil
	})
}

// IsDead reports whether write seq to an entry, or a newer one, has ended without reaching upstream, durably: it is a dead
// letter, or it has lost a conflict between hosts. state is [ReceiptDead] or [ReceiptSuperseded]. IsDead reads only what has
// ended from seq on.
func (j *Journal) IsDead(id ID, seq uint64) (state ReceiptState, dead bool, err error) {
	if err := j.store.Acquire(); err != nil {
		return 0, false, err
	}
	defer j.store.Release()
	state = ReceiptSuperseded
	if dead, err = j.entries.HasLost(id, seq); err == nil && !dead {
		state = ReceiptDead
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
