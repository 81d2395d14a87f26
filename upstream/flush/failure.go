package flush

import (
	"context"
	"log/slog"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// fullDiskRetry is how long a task waits after it found the disk full.
const fullDiskRetry = time.Second

// stop ends the attempt and enqueues its task, to wait until at; 0 means no wait. The caller holds mu.
func (a *attempt) stop(why waiting, at instant) {
	a.task.removes = a.task.removes || a.removes
	a.f.schedule.stop(a, a.f.now())
	if a.task.retry != nil || at != 0 {
		r := retryOf(a.task)
		r.waiting, r.at = why, at
	}
	a.f.schedule.enqueue(a.queue, a.task, a.f.now())
}

// backOut ends an attempt that leaves upstream unchanged, or only adds a doubt. The entry's pending
// write waits as before.
func (a *attempt) backOut() {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.resume()
}

// resume does the work of backOut. The caller holds mu.
func (a *attempt) resume() {
	why, at := backingOff, instant(0)
	if r := a.task.retry; r != nil {
		why, at = r.waiting, r.at
		switch d := r.doubt; {
		case d == nil:
		case a.task.first == 0:
			why, at = doubting, max(atOnce, d.until())
		case d.confirmed == nil && why == doubting && d.unknownUntil == 0, d.confirmed != nil && a.task.seq > d.confirmed.seq:
			why, at = backingOff, a.f.now()+instant(a.f.opts.BackoffInitial) // the pending write still has to be sent
		}
	}
	if a.task.needless() {
		a.f.schedule.stop(a, a.f.now())
		a.f.schedule.drop(a.queue, a.task)
		return
	}
	a.stop(why, at)
}

// putBack ends an attempt that has learned nothing about upstream. Its task is due at once.
func (a *attempt) putBack() {
	a.f.health.Release(a.probe)
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.stop(backingOff, atOnce)
}

// unmade returns the quota and the probe of an attempt that made no request.
func (a *attempt) unmade() {
	a.charge.takeBack()
	a.f.health.Release(a.probe)
}

// waitForRoom ends an attempt that was not made: the disk has no room to record its outcome.
func (a *attempt) waitForRoom() {
	a.unmade()
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if !a.f.diskFull {
		a.f.diskFull = true
		a.f.mu.Log(slog.LevelWarn, "the disk is full: writes go upstream when there is room for the record that they did")
	}
	a.stop(noRoom, a.f.now()+instant(fullDiskRetry))
}

// failed ends a failed attempt. The caller holds mu.
func (a *attempt) failed(failed *upstream.Error, why waiting, retryAt instant) {
	if a.through != nil {
		a.resume()
		return
	}
	r := retryOf(a.task)
	r.attempts++
	r.reason = failed.Reason
	a.stop(why, retryAt)
}

// answered records that upstream gave a verdict. through means that it carried out a write.
func (a *attempt) answered(through bool) {
	a.f.health.Success(a.id(), a.probe)
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	s := a.f.schedule
	a.probe, s.hanging = false, false
	s.window = min(s.window+1, a.f.opts.Slots.Concurrency().Now)
	a.queue.answeredAt = a.f.now()
	s.fails(a.queue, false)
	r := a.task.retry
	if r != nil {
		r.hung = false
	}
	if through && r != nil {
		r.attempts, r.backoff = 0, nil
	}
	// Only a request sent after the namespace was blocked shows that the block is over.
	if through && a.trial {
		s.unblock(a.queue)
	}
}

// keepWaiting throttles or pauses the namespace, as upstream's verdict says.
func (a *attempt) keepWaiting(failed *upstream.Error) {
	a.f.opts.namespaceFull(a.queue.Key(), failed)
	if failed.Says() {
		a.answered(false)
	} else {
		a.f.health.Failure(a.id(), a.probe, failed, time.Now())
	}
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if failed.Verdict == upstream.Throttled {
		a.throttle(failed)
		return
	}
	a.pause(failed)
}

// throttle makes the namespace wait as long as upstream asked, or else by a backoff. The caller holds
// mu.
func (a *attempt) throttle(failed *upstream.Error) {
	q := a.queue
	if a.trial {
		q.paused = "" // upstream lets it in, but not yet
	}
	wait := failed.RetryAfter // guard 15.9
	// If several requests were in flight when the namespace was first throttled, only one of them
	// raises the backoff.
	if wait == 0 && (a.trial || !q.blocked) {
		if q.backoff == nil {
			longest := a.f.opts.BackoffMax
			if q.pace.limited { // the quota may be used up
				longest = max(longest, q.pace.maxAge)
			}
			q.backoff = upstream.NewBackoff(a.f.opts.BackoffInitial, longest)
		}
		wait = q.backoff.NextBackOff()
	}
	if a.charge.flying { // false for a read
		a.f.opts.Quotas.Throttled(q.Key(), wait)
	}
	begins := q.throttled == ""
	q.throttled = failed.Reason
	a.block(wait, failed, atOnce)
	if begins {
		a.f.mu.Log(slog.LevelWarn, "upstream throttles a namespace: its writes wait",
			"namespace", q.Key(), "reason", failed.Reason, "until", a.f.wall(q.notBefore))
	}
}

// pause makes the namespace wait for a person. Every BackoffMax one attempt is made, each by another
// task: upstream may refuse only this entry. The caller holds mu.
func (a *attempt) pause(failed *upstream.Error) {
	q := a.queue
	begins := q.paused == ""
	q.paused, q.throttled = failed.Reason, ""
	q.full = failed.NamespaceFull
	a.block(a.f.opts.BackoffMax, failed, a.f.now()+instant(a.f.opts.BackoffMax)) // guard 15.7
	if begins {
		what := "upstream does not let a namespace in: its writes wait"
		if q.refusing {
			what = "upstream refuses the writes of a namespace: they wait"
		}
		a.f.mu.Log(slog.LevelError, what,
			"namespace", q.Key(), "reason", failed.Reason, "retry_every", a.f.opts.BackoffMax.String(),
			"until", a.f.wall(q.notBefore))
	}
}

// block stops a namespace from sending for a while, and then allows one request at a time until one
// succeeds. If an earlier answer asked for a longer wait, the longer wait stands. The caller holds mu.
func (a *attempt) block(wait time.Duration, failed *upstream.Error, retryAt instant) {
	a.queue.blocked = true
	a.queue.notBefore = max(a.queue.notBefore, a.f.now()+instant(wait)) // guard 16.26
	a.failed(failed, backingOff, retryAt)
}

// mayHold records that upstream may hold c, until it confirms the next write.
func (a *attempt) mayHold(c journal.Content) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	retryOf(a.task).mayHold(c)
}

// noteDoubt puts the entry in doubt: within the late window, upstream may still carry out a request
// that leaves c. The newest write is sent as soon as upstream answers again all the same (contract 14).
func (a *attempt) noteDoubt(c journal.Content) {
	if a.f.exact {
		a.mayHold(c)
		return
	}
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	r := retryOf(a.task)
	if r.doubt == nil {
		r.doubt = &doubt{}
	}
	r.doubt.add(c, a.f.now()+instant(a.f.opts.LateWindow)) // guard 14.3
}

// tryAgain makes the task wait by its own backoff, or by that of the probes while upstream is down.
func (a *attempt) tryAgain(failed *upstream.Error, down bool) {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	now, r := a.f.now(), retryOf(a.task)
	if r.attempts == 0 {
		r.since = now
	}
	wait := a.f.opts.BackoffInitial
	if !down {
		if r.backoff == nil {
			r.backoff = upstream.NewBackoff(a.f.opts.BackoffInitial, a.f.opts.BackoffMax)
		}
		wait = r.backoff.NextBackOff()
		if v := a.f.health.View(); v.Failing && a.f.instant(v.Since) <= r.since {
			// guard 14.6
			wait = min(wait, probeMax) // nothing succeeded since: perhaps this entry's requests are the only ones
		}
		wait = max(wait, min(failed.RetryAfter, a.f.opts.BackoffMax))
	}
	r.hung = r.hung || failed.Verdict == upstream.Unanswered && a.f.schedule.hung(a, now)
	why := backingOff
	if r.hung {
		why = silent
	}
	a.failed(failed, why, now+instant(wait)) // guard 14.4
}

// blame records a failure that affects upstream's health, unless the process ending caused it.
func (a *attempt) blame(ctx context.Context, failed *upstream.Error) (down bool) {
	if ctx.Err() != nil {
		a.f.health.Release(a.probe)
		return false
	}
	down = a.f.health.Failure(a.id(), a.probe, failed, time.Now())
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	s := a.f.schedule
	s.fails(a.queue, true)
	a.queue.reason = failed.Reason
	s.hanging = s.hanging || down && s.hung(a, a.f.now())
	if down { // guard 16.5
		a.f.schedule.window = 1
	}
	return down
}
