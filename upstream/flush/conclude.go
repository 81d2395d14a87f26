package flush

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/fence"
)

// conclude decides what the result of a pending write's send attempt means, and journals it.
func (a *attempt) conclude(ctx context.Context, s *sendAttempt, got sent) (ending, error) {
	w, failed := s.write, got.failed
	if failed == nil {
		s.answered(got.requested)
	}
	mayLand := got.requested && failed != nil && failed.Verdict == upstream.Unanswered
	if got.requested && failed != nil && !mayLand && failed.Verdict != upstream.Transient { // guard 17.19
		if err := s.takeBack(); err != nil {
			return ending{}, err
		}
	}
	switch {
	case failed != nil && ctx.Err() != nil:
		return ending{task: goesAgain, mayLand: mayLand}, nil //nolint:nilerr // to end with the process is no failure
	case a.early && failed == nil: // guard 14.18
		return ending{task: staysForTheNextStart}, nil
	case got.requested && failed == nil:
		return a.settle(ending{admits: letIn}, w)
	case got.end == fence.Own, got.end == fence.Held: // upstream already holds what the write would leave
		s.is(got.now)
		a.f.fences.confirmed(s.write, time.Time{}, got.now.WrittenAt) // guard 17.60
		return a.settle(ending{}, s.write)
	case got.end == fence.Lost:
		return a.lost(s, got.now)
	case got.end == fence.Conflict: // the task backs off as after a failure, though upstream is healthy
		return failing("", &upstream.Error{Verdict: upstream.Transient, Reason: reasonContended}), nil
	}
	what := ""
	if !got.requested && failed.Verdict == upstream.Paused {
		what = "comparing with upstream: " // it might still let the write itself in
	}
	e := failing(what, failed)
	e.mayLand = mayLand
	a.failed(e.failed)
	if got.requested && failed.Verdict == upstream.Permanent && !a.early {
		return a.refused(w, failed)
	}
	return e, nil // guard 13.4
}

// answered records that upstream has answered, if it was asked at all.
func (s *sendAttempt) answered(tookWrite bool) {
	if !s.asked.IsZero() || !s.sent.IsZero() {
		s.a.answered(tookWrite, s.took)
	}
}

func (a *attempt) settle(e ending, w journal.Write) (ending, error) {
	if err := a.f.opts.Journal.Settle(w); err != nil {
		return ending{}, err
	}
	if a.f.opts.OnSettled != nil {
		a.f.opts.OnSettled(w)
	}
	e.task, e.write = settles, w
	return e, nil
}

// lost makes a write a dead letter: another host's state is later.
func (a *attempt) lost(s *sendAttempt, v upstream.Version) (e ending, err error) {
	w := s.write
	if v.Deleted {
		err = a.f.fences.journal.LoseToDelete(w, v.WrittenAt, reasonLost)
	} else {
		err = a.f.fences.journal.Lose(w, *v.Observation(), reasonLost)
	}
	if err != nil {
		return ending{}, err
	}
	a.f.fences.forget(w.ID)
	text := "another host has written later than a pending write: the write is a dead letter now"
	if w.LosesTies {
		text = "another host has written later than an imported or restored value: that value is given up, and leaves no dead letter"
	}
	return a.dead(ending{}, w, slog.LevelWarn, text, "theirs_written_at", wallOf(cmp.Or(v.MadeAt, v.WrittenAt)))
}

// dead decides about a write that upstream does not hold, and logs that. The journal has made it no dead letter if
// a newer write to the entry was pending. Callers then wait for the newer one.
func (a *attempt) dead(e ending, w journal.Write, level slog.Level, text string, args ...any) (ending, error) {
	a.f.mu.Lock()
	newer := a.task.seq > w.Seq
	a.f.mu.Unlock()
	if newer { // guard 13.17
		if _, dead, err := a.f.opts.Journal.IsDead(w.ID, w.Seq); !dead || err != nil {
			e.task = startsOver
			return e, err
		}
	}
	args = append([]any{"namespace", w.Namespace, "key", w.Key, "seq", w.Seq}, args...)
	a.f.opts.Logger.Log(context.Background(), level, text, args...)
	e.task, e.write = dies, w
	return e, nil
}
