package flush

import (
	"log/slog"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// fullDiskRetry is how long a task waits after it found the disk full.
const fullDiskRetry = time.Second

// ending says what the result of an attempt means. The zero value is the ending of an attempt that
// made no request and changed nothing.
type ending struct {
	task    fate
	write   journal.Write // settles, dies: the write
	admits  admission
	mayLand bool            // upstream may still carry out the attempt's request
	failed  *upstream.Error // the failure that the attempt ended with; nil: none
}

// fate says what becomes of the attempt's task.
type fate uint8

const (
	waitsAsBefore        fate = iota
	settles                   // its writes up to the write are complete
	dies                      // its writes up to the write are complete, and upstream does not hold them
	startsOver                // only a newer write is pending
	goesAgain                 // it is due at once, and sends its newest write
	waitsForRoom              // the disk has no room to record an outcome
	staysForTheNextStart      // an older request may still land, and the process is about to end
	retries                   // it waits for its namespace or by a backoff
)

// admission says what the attempt has learned about the namespace.
type admission uint8

const (
	asBefore  admission = iota
	letIn               // upstream lets it in. Only a request sent after the namespace was blocked shows that.
	throttled           // upstream asks to wait
	paused              // upstream does not let it in
	refusing            // upstream refuses one of its writes after another
)

// failing returns the ending of a pending write's attempt that has failed, according to the verdict. The
// reason begins with what.
func failing(what string, failed *upstream.Error) ending {
	said := *failed
	said.Reason = what + failed.Reason
	e := ending{task: retries, failed: &said}
	switch failed.Verdict {
	case upstream.Throttled:
		e.admits = throttled
	case upstream.Paused:
		e.admits = paused
	}
	return e
}

// end ends the attempt, and is the only function that does. The journal's steps come before it, so a
// write that is a dead letter by now does not count for OnNamespaceFull.
func (a *attempt) end(e ending) {
	if !a.requested {
		a.takeBack() // guard 18.27
	}
	f := a.f
	if e.failed != nil && e.failed.NamespaceFull && !e.failed.Verdict.BlamesUpstream() && f.opts.OnNamespaceFull != nil {
		f.opts.OnNamespaceFull(a.queue.Key())
	}
	if !a.heard {
		f.health.Release(a.probe)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if e.mayLand {
		retryOf(a.task).openUntil = now + f.window // guard 14.3
	}
	if a.down { // guard 14.23
		f.callers.held("")
	}
	switch e.admits {
	case letIn:
		if a.trial {
			f.schedule.unblock(a.queue)
		}
	case throttled:
		a.throttle(e.failed, now)
	case paused, refusing:
		a.pause(e, now)
	}
	//exhaustive:enforce
	switch e.task {
	case waitsAsBefore:
		a.resume(now)
	case settles, dies:
		a.complete(e, now)
	case startsOver:
		f.schedule.stop(a, now)
		a.beginAnew(now)
	case goesAgain:
		a.enqueue(backingOff, atOnce, now)
	case waitsForRoom:
		if !f.diskFull {
			f.diskFull = true
			f.mu.Log(slog.LevelWarn, "the disk is full: writes go upstream when there is room for the record that they did")
		}
		a.enqueue(noRoom, now+instant(fullDiskRetry), now)
	case staysForTheNextStart:
		a.enqueue(backingOff, never, now)
	case retries:
		a.retry(e, now)
	}
}

// The methods below do the work of end. The caller holds mu.

// throttle makes the namespace wait as long as upstream asked, or else by a backoff.
func (a *attempt) throttle(failed *upstream.Error, now instant) {
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
	if a.requested && a.flying { // upstream has refused a write, not a read
		a.f.opts.Quotas.Throttled(q.Key(), wait)
	}
	begins := q.throttled == ""
	q.throttled = failed.Reason
	a.block(now + instant(wait))
	if begins {
		a.f.mu.Log(slog.LevelInfo, "upstream throttles a namespace: its writes wait",
			"namespace", q.Key(), "reason", failed.Reason, "until", a.f.wall(q.notBefore))
	}
}

// pause makes the namespace wait for a person. Every BackoffMax one attempt is made, each by another
// task: upstream may refuse only this entry.
func (a *attempt) pause(e ending, now instant) {
	q, every := a.queue, a.f.opts.BackoffMax
	q.refusing = q.refusing || e.admits == refusing
	begins := q.paused == ""
	q.paused, q.throttled = e.failed.Reason, ""
	q.full = e.failed.NamespaceFull
	a.block(now + instant(every))
	if begins {
		what := "upstream does not let a namespace in: its writes wait"
		if q.refusing {
			what = "upstream refuses the writes of a namespace: they wait"
		}
		a.f.mu.Log(slog.LevelWarn, what, "namespace", q.Key(), "reason", e.failed.Reason,
			"retry_every", every.String(), "until", a.f.wall(q.notBefore))
	}
}

// block stops a namespace from sending until then, and allows one request at a time until one
// succeeds. If an earlier answer asked for a longer wait, the longer wait stands.
func (a *attempt) block(until instant) {
	if !a.queue.blocked { // guard 14.22
		a.queue.blocked = true
		a.f.callers.held(a.queue.Key())
	}
	a.queue.notBefore = max(a.queue.notBefore, until) // guard 16.26
}

// retry makes the task wait for its namespace, or by its own backoff, or by that of the probes while
// upstream is down.
func (a *attempt) retry(e ending, now instant) {
	r, why, at := retryOf(a.task), backingOff, atOnce
	switch {
	case e.admits == throttled:
	case e.admits != asBefore:
		at = now + instant(a.f.opts.BackoffMax) // guard 15.7
	default:
		if r.attempts == 0 {
			r.since = now
		}
		at = now + instant(a.backoff(r, e.failed)) // guard 14.4
		r.hung = r.hung || e.failed.Verdict == upstream.Unanswered && a.f.schedule.hung(a, now)
		if r.hung {
			why, a.queue.silentMore = silent, 0
		}
	}
	r.attempts++
	r.reason = e.failed.Reason
	a.enqueue(why, at, now)
}

func (a *attempt) backoff(r *retryState, failed *upstream.Error) time.Duration {
	if a.down {
		return a.f.opts.BackoffInitial
	}
	if r.backoff == nil {
		r.backoff = upstream.NewBackoff(a.f.opts.BackoffInitial, a.f.opts.BackoffMax)
	}
	wait := r.backoff.NextBackOff()
	if v := a.f.health.State(); v.Failing && a.f.instant(v.Since) <= r.since {
		// guard 14.6
		wait = min(wait, probeMax) // nothing succeeded since: perhaps this entry's requests are the only ones
	}
	return max(wait, min(failed.RetryAfter, a.f.opts.BackoffMax))
}

// resume enqueues the task as before the attempt, or removes it if nothing is left to do.
func (a *attempt) resume(now instant) {
	if a.task.needless(now) {
		a.f.schedule.stop(a, now)
		a.f.schedule.drop(a.queue, a.task)
		return
	}
	why, at := backingOff, instant(0)
	if r := a.task.retry; r != nil {
		why, at = r.waiting, r.at
	}
	a.enqueue(why, at, now)
}

// enqueue makes the task wait until at, and until nothing can land any more; 0 means no wait.
func (a *attempt) enqueue(why waiting, at, now instant) {
	if open := a.task.openUntil(); open > now { // guard 14.1
		at = max(at, open)
		if a.f.schedule.draining { // it was sent for the last time
			at = never
		}
	}
	a.task.removes = a.task.removes || a.removes
	a.f.schedule.stop(a, now)
	if a.task.retry != nil || at != 0 {
		r := retryOf(a.task)
		r.waiting, r.at = why, at
	}
	a.f.schedule.enqueue(a.queue, a.task, now)
	a.f.callers.tried(a.id())
}

// complete completes the task's writes up to the ending's, and schedules a newer write again.
func (a *attempt) complete(e ending, now instant) {
	f, seq := a.f, e.write.Seq
	f.schedule.stop(a, now)
	from, to, left := f.schedule.complete(a, seq, now)
	f.renew(a.queue) // it has one entry less
	f.callers.completed(a.id(), seq, from, to, e.task == dies, e.failed)
	if left {
		a.beginAnew(now)
	}
}

// beginAnew enqueues a stopped task for its newer write, or for the end of its window.
func (a *attempt) beginAnew(now instant) {
	open := a.task.openUntil()
	a.task.retry = nil
	if open > now { // guard 14.2
		r := retryOf(a.task)
		r.openUntil, r.waiting, r.at = open, backingOff, open
	}
	a.task.urgent = a.f.callers.waitFor(a.id())
	a.f.schedule.enqueue(a.queue, a.task, now)
}
