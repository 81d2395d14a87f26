package flush

import (
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/schedule"
)

const (
	// fullDiskRetry is how long a task waits after it found the disk full.
	fullDiskRetry = time.Second
	// probeMax bounds the wait between two probes while upstream may be down: upstream gets the newest
	// writes within 5 s of its return.
	probeMax = 4 * time.Second
	// fullRetry is how often a put of a full namespace is tried.
	fullRetry = time.Minute
)

// ending says what the result of an attempt means. The zero value is the ending of an attempt that
// made no request and changed nothing.
type ending struct {
	fate       schedule.Fate
	write      journal.Write // Completes: the write
	dead       bool          // upstream does not hold that
	admits     admission
	unanswered bool            // upstream may still carry out the attempt's request: a late window begins
	failed     *upstream.Error // the failure that the attempt ended with; nil: none
}

// admission says what the attempt has learned about the namespace.
type admission uint8

const (
	asBefore  admission = iota
	letIn               // upstream lets it in. Only a request sent after the namespace was blocked shows that.
	throttled           // upstream asks to wait
	paused              // upstream does not let it in
	refusing            // upstream refuses one of its writes after another
	full                // upstream has no room for more in it
)

// failing returns the ending of a pending write's attempt that has failed, according to the verdict. The
// reason begins with what.
func failing(what string, failed *upstream.Error) ending {
	said := *failed
	said.Reason = what + failed.Reason
	e := ending{fate: schedule.Retries, failed: &said}
	switch failed.Verdict {
	case upstream.Throttled:
		e.admits = throttled
	case upstream.Paused:
		if e.admits = paused; failed.NamespaceFull {
			e.admits = full
		}
	}
	return e
}

// end ends the attempt, and is the only function that does. The journal's steps come before it.
func (a *attempt) end(e ending) {
	if !a.requested {
		a.takeBack() // guard 18.27
	}
	f := a.f
	if !a.told {
		f.health.Release(a.Probe)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if a.down { // guard 14.23
		f.callers.held("")
	}
	if a.inFlight {
		f.opts.Quotas.Ended(a.Namespace())
	}
	switch e.admits {
	case letIn:
		f.schedule.LetIn(a.Attempt, e.fate == schedule.Completes && !e.dead)
	case throttled:
		a.throttle(e.failed, now)
	case paused, refusing:
		a.pause(e, now)
	case full:
		a.fills(e.failed, now)
	}
	id := a.ID()
	end := schedule.Ending{Fate: e.fate, Seq: e.write.Seq, Awaited: f.callers.waitFor(id), At: now + schedule.Instant(fullDiskRetry)}
	if e.unanswered {
		end.WindowEnd = now + f.window // guard 14.3
	}
	if e.fate == schedule.Retries {
		end.Failure = a.failure(e, now)
	}
	if e.fate == schedule.WaitsForRoom && !f.diskFull {
		f.diskFull = true
		f.mu.Log(slog.LevelWarn, "the disk is full: writes go upstream when there is room for the record that they did")
	}
	from, to := f.schedule.End(a.Attempt, &end, now)
	switch e.fate {
	case schedule.Completes:
		f.callers.completed(id, e.write.Seq, from, to, e.dead, e.failed)
	case schedule.StartsOver: // callers wait for the newer write
	default:
		f.callers.tried(id)
	}
}

// The methods below do the work of end. The caller holds mu.

// throttle makes the namespace wait as long as upstream asked, or else by a backoff.
func (a *attempt) throttle(failed *upstream.Error, now schedule.Instant) {
	f := a.f
	waits := func(longest time.Duration) *backoff.ExponentialBackOff {
		return upstream.NewBackoff(f.opts.BackoffInitial, max(f.opts.BackoffMax, longest))
	}
	wait, begins, blocks := f.schedule.Throttle(a.Attempt, failed.Reason, failed.RetryAfter, waits, now) // guard 15.9
	if a.requested && a.inFlight {                                                                       // upstream has refused a write, not a read
		f.opts.Quotas.Throttled(a.Namespace(), wait)
	}
	a.blocked(blocks)
	if begins {
		_, until := f.schedule.Waits(a.Namespace(), now, upstream.CircuitState{})
		f.mu.Log(slog.LevelInfo, "upstream throttles a namespace: its writes wait",
			"namespace", a.Namespace(), "reason", failed.Reason, "until", f.wall(until))
	}
}

// pause makes the namespace wait for a person. Every BackoffMax one attempt is made.
func (a *attempt) pause(e ending, now schedule.Instant) {
	f, every := a.f, a.f.opts.BackoffMax
	begins, refuses, blocks := f.schedule.Pause(a.Attempt, e.failed.Reason, e.admits == refusing, now+schedule.Instant(every))
	a.blocked(blocks)
	if begins {
		what := "upstream does not let a namespace in: its writes wait"
		if refuses {
			what = "upstream refuses the writes of a namespace: they wait"
		}
		_, until := f.schedule.Waits(a.Namespace(), now, upstream.CircuitState{})
		f.mu.Log(slog.LevelWarn, what, "namespace", a.Namespace(), "reason", e.failed.Reason,
			"retry_every", every.String(), "until", f.wall(until))
	}
}

// fills makes the puts of a full namespace wait.
func (a *attempt) fills(failed *upstream.Error, now schedule.Instant) {
	f := a.f
	begins := f.schedule.Full(a.Attempt, failed.Reason, schedule.Instant(fullWait(failed)), now)
	a.blocked(begins)
	if begins {
		f.mu.Log(slog.LevelWarn, "upstream has no room for more in a namespace: its puts wait, and its deletes go: delete what is not needed",
			"namespace", a.Namespace(), "reason", failed.Reason, "retry_every", fullRetry.String())
	}
}

// fullWait returns how long the puts of a full namespace wait.
func fullWait(failed *upstream.Error) time.Duration { return max(fullRetry, failed.RetryAfter) }

// blocked tells the namespace's callers that its writes have to wait from now on, if they begin to.
func (a *attempt) blocked(begins bool) {
	if begins { // guard 14.22
		a.f.callers.held(a.Namespace())
	}
}

// failure says how the attempt has failed: the entry waits for its namespace, or by its own backoff, or by that of the
// probes while upstream is down.
func (a *attempt) failure(e ending, now schedule.Instant) schedule.Failure {
	f := a.f
	failure := schedule.Failure{Reason: e.failed.Reason, Hung: e.failed.Verdict == upstream.Unanswered}
	switch {
	case e.admits == throttled:
		failure.At = schedule.AtOnce
	case e.admits == full:
		failure.At = now + schedule.Instant(fullWait(e.failed)) // guard 18.44
	case e.admits != asBefore:
		failure.At = now + schedule.Instant(f.opts.BackoffMax) // guard 15.7
	case a.down:
		failure.Least = f.opts.BackoffInitial
	default:
		failure.Backoff = func() *backoff.ExponentialBackOff {
			return upstream.NewBackoff(f.opts.BackoffInitial, f.opts.BackoffMax)
		}
		failure.Least, failure.Most = min(e.failed.RetryAfter, f.opts.BackoffMax), probeMax
		if v := f.health.State(); v.Failing {
			failure.FailingSince = f.instant(v.Since)
		}
	}
	return failure
}

// takeBack refunds a request that upstream has not counted.
func (a *attempt) takeBack() {
	if a.charged {
		a.charged = false
		a.f.opts.Quotas.GiveBack(a.Namespace())
	}
}
