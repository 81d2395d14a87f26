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
	switch {
	case got.requested && failed == nil:
		return a.confirmed(ending{admits: letIn}, w, s.sent)
	case got.end == fence.Own, got.end == fence.Held: // upstream already holds what the write would leave
		s.is(got.now)
		a.f.fences.confirmed(s.write, time.Time{}, got.now.WrittenAt) // guard 17.60
		return a.confirmed(ending{}, s.write, s.asked)
	case got.end == fence.Lost:
		return a.lost(s, got.now)
	case !got.requested, failed.Verdict == upstream.Unsent:
		if err := a.unmark(); err != nil {
			return ending{}, err
		}
	}
	what := ""
	switch {
	case got.end == fence.Conflict: // the task backs off as after a failure, though upstream is healthy
		return failing("", &upstream.Error{Verdict: upstream.Transient, Reason: reasonContended}), nil
	case ctx.Err() != nil: // the sent mark stays, unless the request was certainly not sent
		return ending{task: goesAgain}, nil //nolint:nilerr // to end with the process is no failure
	case !got.requested && failed.Verdict == upstream.Paused:
		what = "comparing with upstream: " // it might still let the write itself in
	}
	e := failing(what, failed)
	a.failed(e.failed)
	switch {
	case !got.requested: // upstream cannot hold it
	case failed.Verdict == upstream.Permanent:
		return a.refused(w, failed)
	case failed.Verdict == upstream.Unanswered:
		a.mayHold(contentOf(w), true)
	case failed.Verdict == upstream.Transient: // it failed, but may have been carried out
		a.mayHold(contentOf(w), false) // guard 17.19
	}
	return e, nil // guard 13.4
}

// answered records that upstream has answered, if it was asked at all.
func (s *sendAttempt) answered(tookWrite bool) {
	if !s.asked.IsZero() || !s.sent.IsZero() {
		s.a.answered(tookWrite, s.took)
	}
}

// confirmed settles a write that upstream held when it was asked, unless upstream may still carry out
// an older request over it.
func (a *attempt) confirmed(e ending, w journal.Write, asked time.Time) (ending, error) {
	if a.inDoubt(asked) { // guard 14.2
		e.task, e.write = staysInDoubt, w
		return e, nil
	}
	return a.settle(e, w)
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

// vanished decides about a task with nothing pending: its entry had a stale sent mark, or was in doubt.
func (a *attempt) vanished() (ending, error) {
	return ending{task: settles, write: journal.Write{Seq: a.newest}}, a.f.opts.Doubts.EndDoubt(a.id())
}

// lost makes a write a dead letter: another host's state is later. If a request of this host may still
// overwrite that state, a copy of it becomes pending, to repair that.
func (a *attempt) lost(s *sendAttempt, v upstream.Version) (e ending, err error) {
	w, inDoubt := s.write, a.inDoubt(s.asked)
	mayLand := a.task.doubt().contents()
	if v.Deleted {
		err = a.f.fences.journal.LoseToDelete(w, v.WrittenAt, reasonLost, mayLand...)
	} else {
		err = a.f.fences.journal.Lose(w, *v.Observation(), reasonLost, mayLand...)
	}
	if err != nil {
		return ending{}, err
	}
	a.f.fences.forget(w.ID)
	text := "another host has written later than a pending write: the write is a dead letter now"
	if w.LosesTies {
		text = "another host has written later than an imported or restored value: that value is given up, and leaves no dead letter"
	}
	e, err = a.dead(ending{}, w, slog.LevelWarn, text, "theirs_written_at", wallOf(cmp.Or(v.MadeAt, v.WrittenAt)))
	if err == nil && inDoubt && e.task == dies { // guard 17.24
		err = a.f.fences.guard(a.f.opts.Journal, w, v)
	}
	return e, err
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

// unmark removes the sent mark of a request that was not sent, unless an earlier request may have
// arrived. The task still belongs to this attempt, so the mark cannot be the next attempt's.
func (a *attempt) unmark() error {
	if a.task.mayHaveLanded() { // guard 14.9
		return nil
	}
	return a.f.opts.Journal.UnmarkSent(a.id())
}

// inDoubt reports whether upstream could still carry out an earlier request when it was asked. It
// forgets the requests that it could not.
func (a *attempt) inDoubt(asked time.Time) bool {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	d := a.task.doubt()
	if d == nil {
		return false
	}
	if d.sentAt(a.f.instant(asked)); d.over() {
		a.task.retry.doubt = nil
	}
	return a.task.retry.doubt != nil
}

// mayHold records that upstream may hold c, until it confirms the next write. If it may still carry out
// the request, within the late window, the entry is in doubt. The newest write is sent as soon as upstream
// answers again all the same (contract 14).
func (a *attempt) mayHold(c journal.Content, unanswered bool) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	r := retryOf(a.task)
	if !unanswered || a.f.exact {
		r.mayHold(c)
		return
	}
	if r.doubt == nil {
		r.doubt = &doubt{}
	}
	r.doubt.add(c, a.f.now()+instant(a.f.opts.LateWindow)) // guard 14.3
	r.unconfirm()                                          // it may land over that write
}
