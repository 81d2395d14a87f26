package upstream

import (
	"time"

	"github.com/botwired/botwired/journal"
)

// stop ends the attempt and puts its task back in line, for a time if it is not 0. The
// caller holds mu.
func (a *attempt) stop(at instant) {
	a.f.schedule.stop(a)
	if a.task.retry != nil || at != 0 {
		retryOf(a.task).at = at
	}
	a.f.schedule.enqueue(a.queue, a.task, a.f.now())
}

// putBack ends an attempt that shows nothing of upstream, or no more than is recorded
// already, and puts its task back in line for a time.
func (a *attempt) putBack(at instant) {
	a.f.health.release(a.probe)
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.stop(at)
}

// failed ends an attempt that has failed, and notes why. The caller holds mu.
func (a *attempt) failed(failed *Error, retryAt instant) {
	r := retryOf(a.task)
	r.attempts++
	r.reason = failed.Reason
	a.stop(retryAt)
}

// answered records that upstream gave a verdict. through says that the namespace is let
// in.
func (a *attempt) answered(through bool) {
	a.f.health.success(a.id(), a.probe)
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.probe = false
	a.f.window = min(a.f.window+1, a.f.opts.Concurrency)
	if r := a.task.retry; through && r != nil {
		r.attempts, r.backoff = 0, nil
	}
	// Only a request that left after the namespace was blocked shows that it no longer is.
	if through && a.trial {
		a.f.schedule.unblock(a.queue)
	}
}

// keepWaiting makes a throttled or paused namespace wait. Upstream is well: it has answered
// so itself.
func (a *attempt) keepWaiting(failed *Error) {
	if failed.says() {
		a.answered(false)
	} else {
		a.f.health.failure(a.id(), a.probe, failed)
	}
	if failed.Verdict == Throttled {
		a.throttled(failed)
		return
	}
	a.paused(failed)
}

// throttled makes the namespace wait as long as upstream asked, or else by a backoff.
func (a *attempt) throttled(failed *Error) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	q := a.queue
	if a.trial {
		q.paused = "" // it is let in, if not now
	}
	wait := failed.RetryAfter
	// Of the requests that were under way when the namespace was first throttled, only
	// one raises the backoff.
	if wait == 0 && (a.trial || !q.blocked) {
		if q.backoff == nil {
			q.backoff = newBackoff(a.f.opts.BackoffInitial, a.f.opts.BackoffMax)
		}
		wait = q.backoff.NextBackOff()
	}
	a.block(wait, failed)
}

// paused makes the namespace wait for a person, with one attempt every backoff_max.
func (a *attempt) paused(failed *Error) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if a.queue.paused == "" {
		a.f.opts.Logger.Error("upstream does not let a namespace in: its writes wait",
			"namespace", a.queue.Key(), "reason", failed.Reason, "retry_every", a.f.opts.BackoffMax)
	}
	a.queue.paused = failed.Reason
	a.block(a.f.opts.BackoffMax, failed)
}

// block keeps a namespace from sending for a while, and to one request at a time until
// one goes through. If an earlier answer asked for longer, that stands. The caller holds
// mu.
func (a *attempt) block(wait time.Duration, failed *Error) {
	a.queue.blocked = true
	a.queue.notBefore = max(a.queue.notBefore, a.f.now()+instant(wait))
	a.failed(failed, atOnce)
}

// unanswered puts the entry in doubt: its task sends nothing until upstream has carried out
// the request, or never will.
func (a *attempt) unanswered(w journal.Write, failed *Error) {
	a.blame(failed)
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	r := retryOf(a.task)
	if r.doubt == nil {
		r.doubt = &doubt{}
	}
	r.doubt.add(w)
	a.failed(failed, a.f.now()+instant(a.f.opts.LateWindow))
}

// transient makes the task wait: by its own backoff when it alone has failed, and by the
// probes' when upstream is down for all.
func (a *attempt) transient(failed *Error) {
	down := a.blame(failed)
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	wait := a.f.opts.BackoffInitial
	if r := retryOf(a.task); !down {
		if r.backoff == nil {
			r.backoff = newBackoff(a.f.opts.BackoffInitial, a.f.opts.BackoffMax)
		}
		wait = max(r.backoff.NextBackOff(), min(failed.RetryAfter, a.f.opts.BackoffMax))
	}
	a.failed(failed, a.f.now()+instant(wait))
}

// blame records a failure that says something of upstream's health.
func (a *attempt) blame(failed *Error) (down bool) {
	down = a.f.health.failure(a.id(), a.probe, failed)
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if down {
		a.f.window = 1
	}
	return down
}
