package flush

import (
	"context"
	"log/slog"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/fence"
)

// Reasons that people see in failures and in dead letters of a fence.
const (
	reasonWon       = "another host wrote it, as far as this host knows, before this host's later write, which has overwritten it"
	reasonLost      = "another host has written later"
	reasonContended = "other hosts write the entry faster than this one gets its write in"
)

// conclude ends the attempt according to the result of its send attempt.
func (a *attempt) conclude(ctx context.Context, s *sendAttempt, end sent) error {
	if end.requested {
		return a.requested(ctx, s, end)
	}
	switch end.end {
	case fence.Own, fence.Held:
		return a.held(s, end.now)
	case fence.Lost:
		return a.lost(s, end.now)
	case fence.Conflict:
		return a.contended(s)
	}
	return a.unasked(ctx, end.failed)
}

// requested ends the attempt according to the verdict on the write's request.
func (a *attempt) requested(ctx context.Context, s *sendAttempt, end sent) error {
	w, failed, verdict := s.write, end.failed, end.verdict()
	if verdict == upstream.Unsent {
		if err := a.unmark(); err != nil {
			return err
		}
	}
	if failed != nil && ctx.Err() != nil {
		// The sent mark stays, unless the request was certainly not sent.
		a.putBack()
		return nil //nolint:nilerr // to end with the process is no failure
	}
	switch verdict {
	case upstream.Confirmed:
		a.answered(true)
		a.f.tookTrip(s.took)
		if a.staysPending(w, a.f.instant(s.sent)) {
			return nil
		}
		return a.settle(w)
	case upstream.Permanent:
		return a.refused(w, failed)
	case upstream.Throttled, upstream.Paused:
		a.keepWaiting(failed)
	case upstream.Unanswered:
		a.noteDoubt(contentOf(w))
		a.tryAgain(failed, a.blame(ctx, failed))
	case upstream.Unsent, upstream.Transient:
		if verdict == upstream.Transient { // it failed, but may have been carried out
			a.mayHold(contentOf(w)) // guard 17.19
		}
		a.tryAgain(failed, a.blame(ctx, failed)) // guard 13.4
	}
	return nil
}

// unasked ends an attempt that could not ask upstream. The write was not sent.
func (a *attempt) unasked(ctx context.Context, failed *upstream.Error) error {
	if err := a.unmark(); err != nil {
		return err
	}
	what := ""
	if failed.Verdict == upstream.Paused {
		what = "comparing with upstream: " // upstream might still let the write itself in
	}
	a.notRead(ctx, what, failed)
	return nil
}

// contended ends the attempt after too many conflicts. The task backs off as after a failure, though
// upstream is healthy.
func (a *attempt) contended(s *sendAttempt) error {
	if err := a.unmark(); err != nil {
		return err
	}
	a.heard(s)
	a.tryAgain(&upstream.Error{Verdict: upstream.Transient, Reason: reasonContended, Answered: true}, false)
	return nil
}

// held ends the attempt: upstream already holds the content that the write would leave.
func (a *attempt) held(s *sendAttempt, v upstream.Version) error {
	a.heard(s)
	s.is(v)
	if a.staysPending(s.write, a.f.instant(s.asked)) {
		return nil
	}
	return a.settle(s.write)
}

// heard records that upstream has answered, if it was asked at all.
func (a *attempt) heard(s *sendAttempt) {
	if s.asked.IsZero() && s.sent.IsZero() {
		a.f.health.Release(a.probe)
		return
	}
	a.answered(false)
}

// keepOverwritten keeps another host's earlier state as a dead letter before w overwrites it.
func (f *Flusher) keepOverwritten(w journal.Write, v upstream.Version) (err error) {
	if v.Deleted {
		err = f.fences.journal.KeepOverwrittenDelete(w, v.WrittenAt, reasonWon)
	} else {
		err = f.fences.journal.KeepOverwritten(w, *v.Observation(), reasonWon) // guard 17.20
	}
	if err != nil {
		return err
	}
	f.opts.Logger.Warn("a write overwrites what another host has written before it: that is kept as a dead letter",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq, "theirs_written_at", wallOf(v.WrittenAt))
	return nil
}

// lost ends the attempt: another host's state is later. If a request of this host may still overwrite
// that state, a copy of it becomes pending, to repair that.
func (a *attempt) lost(s *sendAttempt, v upstream.Version) (err error) {
	a.heard(s)
	w, mayLand := s.write, a.mayStillLand(s.asked)
	if v.Deleted {
		err = a.f.fences.journal.LoseToDelete(w, v.WrittenAt, reasonLost, mayLand...)
	} else {
		err = a.f.fences.journal.Lose(w, *v.Observation(), reasonLost, mayLand...)
	}
	if err != nil {
		return err
	}
	inDoubt := a.task.doubt() != nil
	a.f.fences.forget(w.ID)
	if superseded, err := a.superseded(w); superseded || err != nil {
		return err
	}
	a.f.opts.Logger.Warn("another host has written later than a pending write: the write is a dead letter now",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq, "theirs_written_at", wallOf(v.WrittenAt))
	a.finish(w.Seq, true)
	if !inDoubt { // guard 17.24
		return nil
	}
	return a.f.fences.guard(a.f.opts.Journal, w, v)
}

// mayStillLand returns the contents of the unanswered requests that upstream could still carry out when
// it was asked. It forgets the other requests.
func (a *attempt) mayStillLand(asked time.Time) []journal.Content {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if d := a.task.doubt(); d != nil {
		if d.sentAt(a.f.instant(asked)); d.over() {
			a.task.retry.doubt = nil
		}
	}
	return a.task.doubt().contents()
}

func wallOf(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }

// FenceAll makes the flusher compare every write acknowledged before the call with upstream before
// sending it, regardless of flush.fence. It is for a machine or data directory that may be a copy, or
// was away, while others may have written.
func (f *Flusher) FenceAll() {
	upTo := f.opts.Journal.Stats().LastSeq
	f.fences.all(upTo) // guard 19.31
	f.opts.Logger.Info("all pending writes are compared with upstream before they are sent", slog.Uint64("up_to_seq", upTo))
}
