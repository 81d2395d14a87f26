package upstream

import (
	"time"

	"github.com/botwired/botwired/journal"
)

// end takes back a task from its goroutine. The caller holds mu.
func (f *Flusher) end(t *task) {
	f.running--
	f.schedule.done(t)
}

// retryAt puts a task back in line.
func (f *Flusher) retryAt(t *task, at instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(t)
	if t.trouble != nil || at != 0 {
		t.troubled().retryAt = at
	}
	f.wait(t)
}

// shutOut makes a namespace wait that is Limited or Paused. Upstream is well: it has said
// so itself.
func (f *Flusher) shutOut(t *task, out Outcome) {
	f.answered(t, false)
	if out.Verdict == Limited {
		f.limited(t, out)
		return
	}
	f.pause(t, out)
}

// limited makes the namespace wait as long as upstream asked, or else by a backoff.
func (f *Flusher) limited(t *task, out Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sp := t.space
	if t.trial {
		sp.paused = "" // it is let in, if not now
	}
	wait := out.RetryAfter
	// Of all that were under way when it was first limited, one raises the backoff.
	if wait == 0 && (t.trial || !sp.blocked) {
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
// until one goes through. What an earlier answer asked for stands if it is longer.
// The caller holds mu.
func (f *Flusher) block(t *task, wait time.Duration, out Outcome) {
	f.failed(t, out, 0)
	t.space.blocked = true
	t.space.notBefore = max(t.space.notBefore, f.now()+instant(wait))
	f.wait(t)
}

// unanswered puts a task in doubt: nothing is sent until what was sent has had its
// time to land.
func (f *Flusher) unanswered(t *task, w journal.Write, out Outcome) {
	f.blame(t, out)
	f.mu.Lock()
	defer f.mu.Unlock()
	tr := t.troubled()
	if tr.doubt == nil {
		tr.doubt = &doubt{}
	}
	tr.doubt.add(w)
	f.failed(t, out, f.now()+instant(f.opts.SettleTime))
	f.wait(t)
}

// unwell makes a task wait: by its own backoff when it alone has failed, and by the
// probes' when upstream is down for all.
func (f *Flusher) unwell(t *task, out Outcome) {
	down := f.blame(t, out)
	f.mu.Lock()
	defer f.mu.Unlock()
	wait := f.opts.BackoffInitial
	if tr := t.troubled(); !down {
		if tr.backoff == nil {
			tr.backoff = newBackoff(f.opts.BackoffInitial, f.opts.BackoffMax)
		}
		wait = max(tr.backoff.NextBackOff(), min(out.RetryAfter, f.opts.BackoffMax))
	}
	f.failed(t, out, f.now()+instant(wait))
	f.wait(t)
}

// blame records a failure that says something of upstream's health.
func (f *Flusher) blame(t *task, out Outcome) (down bool) {
	fell, down := f.health.failure(t.id(), t.probe, out.unreachable, out.Reason)
	if fell {
		f.opts.Logger.Warn("upstream does not take writes: they wait in the journal", "reason", out.Reason)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if down {
		f.window = 1
	}
	return down
}

// failed ends an attempt in vain. The caller holds mu and puts the task in line.
func (f *Flusher) failed(t *task, out Outcome, retryAt instant) {
	f.end(t)
	tr := t.troubled()
	tr.attempts++
	tr.text, tr.retryAt = out.Reason, retryAt
}
