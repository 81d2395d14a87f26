package upstream

import (
	"context"
	"time"

	"github.com/botwired/botwired/journal"
)

// conclude does what the outcome of a write request asks for.
func (f *Flusher) conclude(ctx context.Context, t *task, w journal.Write, out Outcome) error {
	switch out.Verdict {
	case Confirmed:
		f.answered(t, true)
		return f.confirmed(ctx, t, w)
	case Refused:
		f.answered(t, true)
		return f.refused(t, w, out)
	case Limited:
		f.answered(t, false)
		f.limited(t, out)
	case Paused:
		f.answered(t, false)
		f.pause(t, out)
	case Unanswered:
		f.unanswered(t, w, out)
	case Unsent, Unwell:
		f.unwell(t, out)
		if out.Verdict == Unsent && t.doubt == nil {
			return f.opts.Journal.Unmark(t.id)
		}
	}
	return nil
}

// answered records that upstream gave a verdict. through says that the namespace is
// let in.
func (f *Flusher) answered(t *task, through bool) {
	recovered := f.health.success()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.window = min(f.window+1, f.opts.Concurrency)
	if through {
		t.attempts, t.backoff = 0, nil
		f.schedule.unblock(t.space)
	}
	if recovered {
		f.opts.Logger.Info("upstream takes writes again", "pending_entries", len(f.schedule.tasks))
	}
}

// confirmed settles a write, at once or after it has been watched.
func (f *Flusher) confirmed(ctx context.Context, t *task, w journal.Write) error {
	if t.doubt.moot(w) {
		return f.settle(t, w)
	}
	t.doubt.watch(w, time.Now().Add(f.opts.SettleTime))
	return f.readBack(ctx, t, w)
}

// readBack asks whether upstream still holds a confirmed write that an older,
// unanswered one may overtake.
func (f *Flusher) readBack(ctx context.Context, t *task, w journal.Write) error {
	o, err := f.opts.Client.Get(ctx, w.ID)
	switch {
	case err != nil && ctx.Err() != nil:
		return f.abandon(t, Outcome{Verdict: Unanswered})
	case err != nil:
		f.unwell(t, Outcome{Verdict: Unwell, Reason: "reading back: " + err.Error()})
		return nil
	}
	f.health.success()
	now := time.Now()
	switch found := observed(o); {
	case found != contentOf(w) && t.doubt.landed(found):
		f.opts.Logger.Warn("an unanswered write landed late and is repaired", "namespace", w.Namespace, "key", w.Key)
		t.doubt.watched, t.doubt.watchUntil = nil, time.Time{}
		f.retryAt(t, now)
		return nil
	case found == contentOf(w) && now.Before(t.doubt.watchUntil):
		f.retryAt(t, t.doubt.watchUntil)
		return nil
	}
	// Either the watch is over, or upstream holds what none of ours can have left: it
	// was confirmed, and another host has written since.
	return f.settle(t, w)
}

func (f *Flusher) settle(t *task, w journal.Write) error {
	if err := f.opts.Journal.Settle(w); err != nil {
		return err
	}
	t.doubt = nil
	f.finish(t, w.Seq)
	f.tell(w, false)
	return nil
}

func (f *Flusher) refused(t *task, w journal.Write, out Outcome) error {
	f.opts.Logger.Error("upstream refused a write for good: it is a dead letter now",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq, "reason", out.Reason)
	if err := f.opts.Journal.Bury(w, out.Status, out.Reason); err != nil {
		return err
	}
	t.doubt = nil
	f.finish(t, w.Seq)
	f.tell(w, true)
	return nil
}

// finish ends a task whose write seq is done with, unless a newer one has come.
func (f *Flusher) finish(t *task, seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(t)
	t.lastText, t.retryAt, t.hurry = "", time.Time{}, false
	if seq != 0 && t.seq > seq {
		t.hurry = f.awaited(t.id)
		f.wait(t)
		return
	}
	f.schedule.remove(t)
}

// end takes back a task from its goroutine. The caller holds mu.
func (f *Flusher) end(t *task) {
	f.running--
	f.schedule.done(t)
}

// retryAt puts a task back in line.
func (f *Flusher) retryAt(t *task, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(t)
	t.retryAt = at
	f.wait(t)
}

// limited makes the namespace wait as long as upstream asked, or else by a backoff.
func (f *Flusher) limited(t *task, out Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sp := t.space
	wait := out.RetryAfter
	if wait == 0 {
		if sp.backoff == nil {
			sp.backoff = newBackoff(f.opts.BackoffInitial, f.opts.BackoffMax)
		}
		wait = sp.backoff.NextBackOff()
	}
	f.block(t, wait, out)
}

// pause makes the namespace wait for a person, trying once in a while.
func (f *Flusher) pause(t *task, out Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.space.paused == "" {
		f.opts.Logger.Error("upstream does not let a namespace in: its writes wait",
			"namespace", t.space.name, "reason", out.Reason, "retry_every", f.opts.BackoffMax)
	}
	t.space.paused = out.Reason
	f.block(t, f.opts.BackoffMax, out)
}

// block keeps a namespace from sending for a while, and to one request at a time
// until one goes through. The caller holds mu.
func (f *Flusher) block(t *task, wait time.Duration, out Outcome) {
	f.end(t)
	t.attempts++
	t.lastText, t.retryAt = out.Reason, time.Time{}
	t.space.blocked = true
	t.space.notBefore = time.Now().Add(wait)
	f.wait(t)
}

// unanswered puts a task in doubt: nothing is sent until what was sent has had its
// time to land.
func (f *Flusher) unanswered(t *task, w journal.Write, out Outcome) {
	if t.doubt == nil {
		t.doubt = &doubt{}
	}
	t.doubt.add(w)
	f.failed(t, out, func() time.Duration { return f.opts.SettleTime })
}

// unwell makes a task wait: by its own backoff when it alone has failed, and by the
// probes' when upstream is down for all.
func (f *Flusher) unwell(t *task, out Outcome) {
	f.failed(t, out, func() time.Duration {
		if f.health.view().down {
			return f.opts.BackoffInitial
		}
		if t.backoff == nil {
			t.backoff = newBackoff(f.opts.BackoffInitial, f.opts.BackoffMax)
		}
		return max(t.backoff.NextBackOff(), out.RetryAfter)
	})
}

func (f *Flusher) failed(t *task, out Outcome, wait func() time.Duration) {
	before := f.health.view()
	f.health.failure(t.id, out.Verdict == Unsent, out.Reason)
	after := f.health.view()
	f.mu.Lock()
	defer f.mu.Unlock()
	if after.down {
		f.window = 1
	}
	if after.down && !before.down {
		f.opts.Logger.Warn("upstream does not take writes: they wait in the journal", "reason", out.Reason)
	}
	f.end(t)
	t.attempts++
	t.lastText = out.Reason
	t.retryAt = time.Now().Add(wait())
	f.wait(t)
}
