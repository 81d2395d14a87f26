package schedule

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Fate says what becomes of an attempt's task.
type Fate uint8

// The fates of a task.
const (
	WaitsAsBefore     Fate = iota // the attempt has changed nothing; the task goes if nothing is left to do
	Completes                     // the entry's writes up to Seq are complete: only newer ones are pending, if any
	StartsOver                    // a newer write has replaced the one that was sent
	GoesAgain                     // it is due at once, and sends its newest write
	WaitsForRoom                  // the disk has no room to record an outcome: it is tried again At a time
	WaitsForNextStart             // an older request may still land, and the process is about to end
	Retries                       // it waits for its namespace, or by a backoff, as Failure says
)

// Ending says how an attempt ends. A fate takes the fields that name it.
type Ending struct {
	Fate Fate
	// WindowEnd is set if upstream has not answered the attempt's request, and says when that can land no more. No fate
	// sends anything of the entry before (contract 14).
	WindowEnd Instant
	Awaited   bool // a caller waits for the entry: Completes and StartsOver send what is left without a linger
	Seq       uint64
	At        Instant
	Failure   Failure
}

// Failure says how an attempt has failed.
type Failure struct {
	Reason string
	Hung   bool // nothing of upstream's came
	// At is when the entry may be tried again; if it waits for its namespace only, AtOnce.
	At Instant
	// Backoff makes the waits of the entry's own backoff; nil if At says when.
	Backoff func() *backoff.ExponentialBackOff
	// Least is the shortest wait, and Most bounds it if no request has succeeded since FailingSince.
	Least, Most  time.Duration
	FailingSince Instant // 0: some requests succeed
}

// End ends an attempt. If its task Completes, End returns the range of positions that are no longer pending.
func (s *Schedule) End(a *Attempt, e *Ending, now Instant) (from, to uint64) {
	if e.WindowEnd != 0 {
		retryOf(a.task).windowEnd = e.WindowEnd
	}
	//exhaustive:enforce
	switch e.Fate {
	case WaitsAsBefore:
		s.resume(a, now)
	case Completes:
		s.stop(a, now)
		left := false
		from, to, left = s.complete(a, e.Seq, now)
		s.Renew(a.queue, now) // it has one entry less
		if left {
			s.beginAnew(a, e.Awaited, now)
		}
	case StartsOver:
		s.stop(a, now)
		s.beginAnew(a, e.Awaited, now)
	case GoesAgain:
		s.await(a, backingOff, AtOnce, now)
	case WaitsForRoom:
		s.await(a, noRoom, e.At, now)
	case WaitsForNextStart:
		s.leaveToNextStart(a, now)
	case Retries:
		s.retry(a, &e.Failure, now)
	}
	return from, to
}

// complete records that a stopped task's writes up to seq are complete. It returns the range of
// positions that are no longer pending. If left is true, the task has more to do, and the caller
// enqueues it.
func (s *Schedule) complete(a *Attempt, seq uint64, now Instant) (from, to uint64, left bool) {
	q, t := a.queue, a.task
	from = t.first
	if t.seq > seq { // guard 12.2
		t.first = a.newer
		return from, t.first, true
	}
	if from != 0 {
		s.pending--
		q.pending--
	}
	if t.first = 0; !t.needless(now) {
		return from, noPosition, true
	}
	s.drop(q, t)
	return from, noPosition, false
}

// beginAnew enqueues a stopped task for its newer write, or for the end of its window.
func (s *Schedule) beginAnew(a *Attempt, awaited bool, now Instant) {
	end := a.task.windowEnd()
	a.task.retry = nil
	if end > now { // guard 14.2
		r := retryOf(a.task)
		r.windowEnd, r.waiting, r.at = end, backingOff, end
	}
	a.task.urgent = awaited
	s.enqueue(a.queue, a.task, now)
}

// retry ends an attempt that has failed.
func (s *Schedule) retry(a *Attempt, f *Failure, now Instant) {
	r, why, at := retryOf(a.task), backingOff, f.At
	if f.At == 0 {
		if r.attempts == 0 {
			r.since = now
		}
		at = now + Instant(r.nextWait(f)) // guard 14.4
		r.hung = r.hung || f.Hung && s.hung(a, now)
		if r.hung {
			why, a.queue.silentMore = silent, 0
		}
	}
	r.attempts++
	r.reason = f.Reason
	s.await(a, why, at, now)
}

func (r *retryState) nextWait(f *Failure) time.Duration {
	if f.Backoff == nil {
		return f.Least
	}
	if r.backoff == nil {
		r.backoff = f.Backoff()
	}
	wait := r.backoff.NextBackOff()
	if f.FailingSince != 0 && f.FailingSince <= r.since {
		// guard 14.6
		wait = min(wait, f.Most) // nothing succeeded since: perhaps this entry's requests are the only ones
	}
	return max(wait, f.Least)
}

// resume ends an attempt that has changed nothing. The task waits as before, or goes if nothing is left to do.
func (s *Schedule) resume(a *Attempt, now Instant) {
	if a.task.needless(now) {
		s.stop(a, now)
		s.drop(a.queue, a.task)
		return
	}
	why, at := backingOff, Instant(0)
	if r := a.task.retry; r != nil {
		why, at = r.waiting, r.at
	}
	s.await(a, why, at, now)
}

// await ends an attempt. The task waits until at, and until nothing can land any more; 0 means no wait. At the end of
// the process, a task is sent no more once it was sent over an open window, or has opened one.
func (s *Schedule) await(a *Attempt, why waiting, at, now Instant) {
	end := a.task.windowEnd()
	if a.Early || s.draining && end > now { // guard 14.25
		s.leaveToNextStart(a, now)
		return
	}
	if end > now { // guard 14.1
		at = max(at, end)
	}
	s.stop(a, now)
	if a.task.retry != nil || at != 0 {
		r := retryOf(a.task)
		r.waiting, r.at = why, at
	}
	s.enqueue(a.queue, a.task, now)
}

// leaveToNextStart ends an attempt whose write this process sends no more: an older request may still land over it.
func (s *Schedule) leaveToNextStart(a *Attempt, now Instant) {
	s.stop(a, now)
	r := retryOf(a.task)
	r.isLeft = true
	if a.queue.left == nil {
		a.queue.left = make(map[*task]struct{})
	}
	a.queue.left[a.task] = struct{}{}
	s.place(a.queue)
}

// stop ends an attempt. Its task is in no line afterwards.
func (s *Schedule) stop(a *Attempt, now Instant) {
	q := a.queue
	if a.silent {
		q.silent--
	}
	if q.failing {
		s.failingRunning--
	}
	switch a {
	case s.hoping:
		s.hoping = nil
	case s.probing:
		s.probing, s.hanging = nil, s.hung(a, now)
	}
	a.task.running = false
	delete(s.running, a.task)
	if a.ended != nil {
		close(a.ended)
	}
	q.running--
	s.renew(q, now)
	s.place(q)
}

// LetIn ends what upstream's answers put on the attempt's namespace, if the attempt tests that. took says that upstream
// has taken its write.
func (s *Schedule) LetIn(a *Attempt, took bool) {
	q := a.queue
	if a.fills && took { // guard 18.43
		q.full = ""
	}
	if a.Trial {
		q.blocked, q.paused, q.throttled, q.refusing, q.backoff, q.notBefore = false, "", "", false, nil, 0
	}
	s.place(q)
}

// Throttle makes the attempt's namespace wait for as long as upstream has asked, or, if that is 0, by a backoff that
// waits makes; longest is the longest wait of its quota. It returns the wait, and whether the namespace begins to be
// throttled, and to be blocked.
func (s *Schedule) Throttle(a *Attempt, reason string, wait time.Duration, waits func(longest time.Duration) *backoff.ExponentialBackOff, now Instant) (waited time.Duration, begins, blocks bool) {
	q := a.queue
	if a.Trial {
		q.paused = "" // upstream lets it in, but not yet
	}
	// If several requests were in flight when the namespace was first throttled, only one of them
	// raises the backoff.
	if wait == 0 && (a.Trial || !q.blocked) {
		if q.backoff == nil {
			q.backoff = waits(q.pace.maxAge) // the quota may be used up
		}
		wait = q.backoff.NextBackOff()
	}
	begins = q.throttled == ""
	q.throttled = reason
	return wait, begins, s.block(q, now+Instant(wait))
}

// Pause makes the attempt's namespace wait for a person: until then, and then one attempt is made, each time by another
// task, as upstream may refuse only this entry. refusing says that it refuses one write after another. Pause returns
// whether the namespace begins to be paused, why, and whether it begins to be blocked.
func (s *Schedule) Pause(a *Attempt, reason string, refusing bool, until Instant) (begins, refuses, blocks bool) {
	q := a.queue
	q.refusing = q.refusing || refusing
	begins = q.paused == ""
	q.paused, q.throttled = reason, ""
	return begins, q.refusing, s.block(q, until)
}

// Full makes the puts of the attempt's namespace wait, as upstream has no room for more in it, and has one tried every so
// often. Deletes go. It reports whether the puts begin to wait.
func (s *Schedule) Full(a *Attempt, reason string, every, now Instant) (begins bool) {
	q := a.queue
	begins = q.full == ""
	q.full, q.fullEvery, q.putsAt = reason, every, max(q.putsAt, now+every)
	s.LetIn(a, false)
	return begins
}

// block stops a namespace from sending until then, and allows one request at a time until one succeeds. If an earlier
// answer asked for a longer wait, the longer wait stands. It reports whether the namespace was not blocked before.
func (s *Schedule) block(q *Queue, until Instant) (begins bool) {
	begins = !q.blocked
	q.blocked = true
	q.notBefore = max(q.notBefore, until) // guard 16.26
	return begins
}
