package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// confirms reports whether a write is acknowledged only once upstream has it: because of the namespace's
// settings, or because its caller waits for a condition to hold upstream.
func (m *Memory) confirms(namespace string, q *Request, conditional bool) bool {
	return !q.Together && (m.writesThrough(namespace) || m.exact && conditional && q.Waits && q.Wait > 0)
}

// patienceOf returns how long the caller of a write waits for upstream to confirm it.
func (m *Memory) patienceOf(q *Request) time.Duration {
	if q.Waits && q.Wait > 0 {
		return q.Wait
	}
	return m.confirmWithin
}

// confirm waits until upstream has confirmed a write that is durable here, and answers accordingly. If the write was
// conditional, upstream has carried out that one, and not only a newer one. The result has the write's number
// and state, with an error too.
func (m *Memory) confirm(ctx context.Context, q *Request, r Result, conditional bool) (Result, error) {
	return answered(m.confirmed(ctx, q, r, conditional))
}

// answered returns the result of a write that is answered with what upstream says.
func answered(r Result, err error) (Result, error) {
	if r.confirmed = true; err != nil {
		r.tagged = false
	}
	return r, err
}

func (m *Memory) confirmed(ctx context.Context, q *Request, r Result, conditional bool) (Result, error) {
	ctx, cancel := m.tasks.Patience(ctx, m.patienceOf(q))
	defer cancel()
	itself := m.exact && conditional
	settled, err := m.flusher.Confirm(ctx, r.id, r.seq, itself)
	if settled {
		r.state = "settled"
		return r, nil
	}
	if isRefused(err) {
		r.state = "dead"
		return r, err
	}
	if err != nil {
		kept := "the write is durable here and still pending"
		if r.state == journal.ReceiptSuperseded.String() {
			kept = "a newer write to the entry has taken its place, and is durable here and still pending"
		}
		return r, unconfirmed{fmt.Errorf("%s: %w", kept, err)}
	}
	return m.ended(r, itself, conditional)
}

// ended answers for a write that is no longer pending, by what the journal knows of it.
func (m *Memory) ended(r Result, itself, conditional bool) (Result, error) {
	receipt, err := m.journal.Receipts.Read(context.Background(), r.seq)
	if err != nil {
		return r, unconfirmed{err}
	}
	switch r.state = receipt.State.String(); {
	case receipt.State == journal.ReceiptSettled:
		return r, nil
	case receipt.State == journal.ReceiptPending: // the caller's time was up before the journal was read
		return r, unconfirmed{journal.ErrRebuilding}
	case receipt.State == journal.ReceiptDead:
		return r, m.whyDead(r.seq)
	case receipt.By != 0 && itself:
		return r, unconfirmed{errReplaced}
	case receipt.By != 0:
		_, dead, err := m.journal.IsDead(r.id, r.seq)
		if err == nil && dead {
			err = errReplacedInVain
		} else if err == nil {
			r.state = "settled" // with the newer one
		}
		return r, err
	case conditional: // guard 5.43
		return r, errOtherWriter
	}
	return r, errLost
}

// isRefused reports whether upstream itself has refused a write.
func isRefused(err error) bool {
	var said Answered
	return errors.As(err, &said)
}

// whyDead returns the refusal of a write that is a dead letter.
func (m *Memory) whyDead(seq uint64) error {
	letter, err := m.journal.ReadDeadLetter(seq)
	switch {
	case errors.Is(err, journal.ErrNoDeadLetter): // a person has decided about it meanwhile
		return wire.Detail(statusConflict, "the write has become a dead letter, and a person has decided about that")
	case err != nil:
		return err
	case letter.Status >= statusBadRequest && letter.Status < statusServerError:
		return wire.Detail(letter.Status, letter.Error)
	}
	return wire.Detail(statusConflict, "the write is a dead letter: "+letter.Error)
}

// unconfirmed is the error of a write that is durable here and that upstream has not confirmed. It wraps the
// reason.
type unconfirmed struct{ error }

func (u unconfirmed) Unwrap() error { return u.error }

// RetryAfter returns when botwired sends the write; 0 if unknown.
func (u unconfirmed) RetryAfter() time.Duration {
	if later, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](u.error); ok {
		return later.RetryAfter()
	}
	return 0
}

// WriteStatus returns the answer's status.
func (unconfirmed) WriteStatus() int { return statusGatewayTimeout }

var (
	errReplaced       = errors.New("a newer write to the entry has taken its place before upstream confirmed it")
	errReplacedInVain = wire.Detail(statusConflict, "a newer write to the entry has taken its place, and has not reached upstream for good: it is a dead letter, or another host has written later")
	errLost           = wire.Detail(statusConflict, "another host has written the entry later: that stays, and this write is kept in the entry's history")
	// errOtherWriter refuses a write whose condition held here and not upstream.
	errOtherWriter = unmet("the entry is not as the condition names it: another writer has changed it, so read it again")
)

// settleBefore waits until nothing of an entry is pending. Its error is errOvertaken if it had to wait.
func (m *Memory) settleBefore(ctx context.Context, q *Request, id journal.ID) error {
	pending, ok, err := m.journal.Newest(id)
	if err != nil || !ok {
		return err
	}
	ctx, cancel := m.tasks.Patience(ctx, m.patienceOf(q))
	defer cancel()
	if _, err := m.flusher.Confirm(ctx, id, pending.Seq, false); err != nil && !isRefused(err) {
		return behind{err}
	}
	return errOvertaken
}

// behind refuses a write whose condition has to hold upstream, as an earlier write to its entry is pending. It
// wraps the reason.
type behind struct{ error }

func (b behind) Error() string {
	return "an earlier write to the entry is still pending, and nothing of this one was made: " + b.error.Error()
}

func (b behind) Unwrap() error { return b.error }

func (b behind) RetryAfter() time.Duration {
	return max(time.Second, unconfirmed(b).RetryAfter())
}

func (behind) WriteStatus() int { return statusUnavailable }

// ErrCrowded refuses a request that may wait for long: too many wait already, and nothing of this one was sent.
var ErrCrowded error = crowded{}

type crowded struct{}

func (crowded) Error() string { return "too many requests wait at this daemon: try again later" }

func (crowded) RetryAfter() time.Duration { return 5 * time.Second }

func (crowded) WriteStatus() int { return statusUnavailable }
