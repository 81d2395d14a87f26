package flush

import (
	"context"
	"time"

	"github.com/botwired/botwired/upstream"
)

// failed does what the verdict on the request asks for.
func (w *through) failed(ctx context.Context, a *attempt, failed *upstream.Error) error {
	switch failed.Verdict {
	case upstream.Unanswered:
		return w.unanswered(ctx, a, failed)
	case upstream.Transient:
		return w.transient(ctx, a, failed)
	case upstream.Unsent, upstream.Throttled:
		a.charge.takeBack()
	}
	if err := a.unmark(); err != nil {
		return err
	}
	switch failed.Verdict {
	case upstream.Unsent:
		w.blame(ctx, a, failed)
		w.err = &NotWritten{
			Reason: failed.Reason + unsent, Wait: max(time.Second, a.f.health.View().RetryIn), status: statusUnavailable,
		}
	case upstream.Throttled, upstream.Paused:
		a.keepWaiting(failed)
		w.err = a.refusedThrough(failed)
		return nil
	default:
		a.answered(false)
		a.f.opts.namespaceFull(w.write.Namespace, failed)
		if a.trial {
			a.f.mu.Lock()
			a.f.schedule.unblock(a.queue) // it is let in
			a.f.mu.Unlock()
		}
		w.err = a.refusedThrough(failed)
	}
	return w.backOut(a, false)
}

// blame records a failure that says something of upstream's health; the end of the process
// says nothing.
func (w *through) blame(ctx context.Context, a *attempt, failed *upstream.Error) {
	if ctx.Err() != nil {
		a.f.health.Release(a.probe)
		return
	}
	a.blame(failed)
}

// refusedThrough is upstream's own refusal, for the caller.
func (a *attempt) refusedThrough(failed *upstream.Error) error {
	said := *failed
	if said.Verdict != upstream.Permanent {
		a.f.mu.Lock()
		said.RetryAfter = max(0, time.Duration(a.queue.notBefore-a.f.now()))
		a.f.mu.Unlock()
	}
	if said.Answer != nil {
		return upstream.AnswerOf(&said)
	}
	status := statusBadAnswer
	if said.Verdict == upstream.Throttled {
		status = statusThrottled
	}
	return &NotWritten{Reason: said.Reason, Wait: said.RetryAfter, status: status}
}

// unanswered puts the entry in doubt.
func (w *through) unanswered(ctx context.Context, a *attempt, failed *upstream.Error) error {
	w.err = &NotWritten{
		Reason: failed.Reason + ". Upstream may have carried it out, or may do so within " + a.f.opts.LateWindow.String() +
			": read the entry before you try again",
		status: statusUnanswered,
	}
	if a.f.exact {
		return w.mayHaveArrived(ctx, a, failed)
	}
	a.noteDoubt(w.content())
	a.f.opts.Through.Doubt(w.write.ID) // guard 14.13
	w.blame(ctx, a, failed)
	return w.backOut(a, false)
}

// transient has readers ask upstream, or something in its place, that failed over the write:
// nobody knows how far the write got. Nothing more of it will come.
func (w *through) transient(ctx context.Context, a *attempt, failed *upstream.Error) error {
	w.err = &NotWritten{
		Reason: "upstream failed: " + failed.Reason + ". It may have carried the write out: read the entry before you try again",
		Wait:   failed.RetryAfter, status: statusBadAnswer,
	}
	return w.mayHaveArrived(ctx, a, failed)
}

// mayHaveArrived ends an attempt of which nobody knows how far it got.
func (w *through) mayHaveArrived(ctx context.Context, a *attempt, failed *upstream.Error) error {
	a.f.mu.Lock()
	nothingPending := a.task.first == 0
	a.f.mu.Unlock()
	switch {
	case a.task.doubt() != nil: // it lasts longer
	case nothingPending:
		if err := a.f.opts.Through.EndDoubt(w.write.ID); err != nil {
			return err
		}
	default:
		a.mayHold(w.content())
	}
	w.blame(ctx, a, failed)
	return w.backOut(a, false)
}
