package schedule

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// Attempt is one run of a task. The task belongs to it until one of the methods ends it: [Schedule.Complete],
// [Schedule.BeginAnew], [Schedule.Again], [Schedule.AwaitRoom], [Schedule.Retry], [Schedule.LeaveToNextStart] and
// [Schedule.Resume]. Its exported fields never change.
type Attempt struct {
	Newest uint64     // the entry's newest known write when the attempt began
	Probe  bool       // it tests whether an outage is over
	Trial  bool       // it tests whether the namespace is let in again
	Early  bool       // an older request may still land: the process is about to end
	Counts bool       // it sends a write, which a quota counts
	Kind   quota.Kind // of that write

	queue     *Queue
	task      *task
	newer     uint64 // position of the first write that this attempt does not send; 0: none
	startedAt Instant
	silent    bool          // the entry's last request hung
	removes   bool          // it sends a delete that goes first
	ended     chan struct{} // closed when the attempt ends; nil until somebody waits for that
}

// ID returns the entry.
func (a *Attempt) ID() journal.ID { return a.queue.id(a.task) }

// Namespace returns the entry's namespace.
func (a *Attempt) Namespace() string { return a.queue.Key() }

// Queue returns the namespace's queue.
func (a *Attempt) Queue() *Queue { return a.queue }

// Next returns an attempt to make now, or when to ask again; 0 means on a change. At most limit attempts run at once,
// and after an outage at first fewer than usual. admit says whether upstream's health admits a request, and whether that
// is a probe; otherwise, when to ask again.
func (s *Schedule) Next(now Instant, limit, usual int, admit func() (ok, probe bool, again Instant)) (a *Attempt, again Instant) {
	if s.wakeAt = 0; len(s.running) >= limit {
		return nil, 0 // until a request ends
	}
	s.window = min(s.window, usual)
	if now < s.notBefore && !s.draining {
		return nil, s.notBefore
	}
	if a, again = s.next(now, admit); a != nil {
		return a, 0
	}
	if s.wakeAt = again; again == 0 {
		s.wakeAt = never
	}
	return nil, again
}

// next starts an attempt of the next queue if upstream's health admits it, or else of a hopeful queue.
func (s *Schedule) next(now Instant, admit func() (ok, probe bool, again Instant)) (a *Attempt, again Instant) {
	q, again := s.inTurn(now)
	if q != nil && len(s.running) < s.window {
		ok, probe, at := admit()
		if ok {
			if a = s.start(q, now, probe); probe {
				s.probing = a
			}
			return a, 0
		}
		again = at
	}
	q, at := s.hopeful(now)
	if q == nil {
		return nil, sooner(again, at)
	}
	s.hoping = s.start(q, now, false)
	return s.hoping, 0
}

// Claim begins an attempt that sends nothing, so that a person can decide about an entry's pending write. If a request
// is in flight, Claim returns a channel that closes when that ends instead; if nothing is pending, neither.
func (s *Schedule) Claim(id journal.ID, now Instant) (a *Attempt, busy <-chan struct{}) {
	q, t := s.find(id)
	if t == nil || t.first == 0 {
		return nil, nil
	}
	if t.running { // guard 13.26
		under := s.running[t]
		if under.ended == nil {
			under.ended = make(chan struct{})
		}
		return nil, under.ended
	}
	a = &Attempt{Newest: t.seq, queue: q, task: t, startedAt: now}
	q.leave(t)
	s.begin(a)
	return a, nil
}

// Sends records that the attempt sends the entry's write with a number: only a newer one is left to send.
func (s *Schedule) Sends(a *Attempt, seq uint64) {
	if a.task.seq <= seq {
		a.task.seq, a.newer = seq, 0
	}
}

// IsNewest reports whether no write is known that is newer than the one that the attempt sends.
func (s *Schedule) IsNewest(a *Attempt) bool { return a.newer == 0 }

// HasNewer reports whether a newer write to the entry than the one with a number is known.
func (s *Schedule) HasNewer(a *Attempt, seq uint64) bool { return a.task.seq > seq }

// Answered records that upstream has given a verdict. With tookWrite, it has carried out a write, which took so long.
// usual is the most requests in flight.
func (s *Schedule) Answered(a *Attempt, tookWrite bool, took time.Duration, usual int, now Instant) {
	q, r := a.queue, a.task.retry
	s.hanging = false
	s.window = min(s.window+1, usual)
	q.answeredAt = now
	if a.silent {
		q.silentMore++
	}
	s.fails(q, false)
	if r != nil {
		r.hung = false
	}
	if tookWrite {
		s.roundTrip += (Instant(took) - s.roundTrip) / roundTripWeight
		if r != nil {
			r.attempts, r.backoff = 0, nil
		}
	}
}

// Failed records that upstream is to blame for the attempt's failure, and whether it is down.
func (s *Schedule) Failed(a *Attempt, reason string, down bool, now Instant) {
	s.fails(a.queue, true)
	a.queue.reason = reason
	s.hanging = s.hanging || down && s.hung(a, now)
	if down { // guard 16.5
		s.window = 1
	}
}

// MayLand records that upstream may still carry out the attempt's request until then.
func (s *Schedule) MayLand(a *Attempt, until Instant) { retryOf(a.task).openUntil = until }

// RefusedSince returns when upstream first refused the entry's write with a number, and whether the namespace is paused
// because it refuses one after another.
func (s *Schedule) RefusedSince(a *Attempt, seq uint64, now Instant) (since Instant, refusing bool) {
	r := retryOf(a.task)
	if r.refusedSeq != seq {
		r.refusedSeq, r.refusedAt = seq, now
	}
	return r.refusedAt, a.queue.refusing
}

// HoldBack makes the attempt's namespace send nothing before then.
func (s *Schedule) HoldBack(a *Attempt, until Instant) { a.queue.notBefore = until }

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
// task, as upstream may refuse only this entry. refusing says that it refuses one write after another, and full that
// there is no room for more in the namespace. Pause returns whether the namespace begins to be paused, why, and whether
// it begins to be blocked.
func (s *Schedule) Pause(a *Attempt, reason string, refusing, full bool, until Instant) (begins, refuses, blocks bool) {
	q := a.queue
	q.refusing = q.refusing || refusing
	begins = q.paused == ""
	q.paused, q.throttled, q.full = reason, "", full
	return begins, q.refusing, s.block(q, until)
}

// block stops a namespace from sending until then, and allows one request at a time until one succeeds. If an earlier
// answer asked for a longer wait, the longer wait stands. It reports whether the namespace was not blocked before.
func (s *Schedule) block(q *Queue, until Instant) (begins bool) {
	begins = !q.blocked
	q.blocked = true
	q.notBefore = max(q.notBefore, until) // guard 16.26
	return begins
}

// Complete ends an attempt. The entry's writes up to seq are complete. It returns the range of positions that are no
// longer pending. urgent says that a caller waits for what is left.
func (s *Schedule) Complete(a *Attempt, seq uint64, urgent bool, now Instant) (from, to uint64) {
	s.stop(a, now)
	from, to, left := s.complete(a, seq, now)
	s.Renew(a.queue, now) // it has one entry less
	if left {
		s.beginAnew(a, urgent, now)
	}
	return from, to
}

// BeginAnew ends an attempt whose write a newer one has replaced. urgent says that a caller waits for that.
func (s *Schedule) BeginAnew(a *Attempt, urgent bool, now Instant) {
	s.stop(a, now)
	s.beginAnew(a, urgent, now)
}

// beginAnew enqueues a stopped task for its newer write, or for the end of its window.
func (s *Schedule) beginAnew(a *Attempt, urgent bool, now Instant) {
	open := a.task.openUntil()
	a.task.retry = nil
	if open > now { // guard 14.2
		r := retryOf(a.task)
		r.openUntil, r.waiting, r.at = open, backingOff, open
	}
	a.task.urgent = urgent
	s.enqueue(a.queue, a.task, now)
}

// Again ends an attempt: its newest write is due at once.
func (s *Schedule) Again(a *Attempt, now Instant) { s.await(a, backingOff, AtOnce, now) }

// AwaitRoom ends an attempt that waits for room on the disk, and looks again at a time.
func (s *Schedule) AwaitRoom(a *Attempt, at, now Instant) { s.await(a, noRoom, at, now) }

// LeaveToNextStart ends an attempt whose write this process sends no more: an older request may still land over it.
func (s *Schedule) LeaveToNextStart(a *Attempt, now Instant) {
	s.stop(a, now)
	r := retryOf(a.task)
	r.isLeft = true
	if a.queue.left == nil {
		a.queue.left = make(map[*task]struct{})
	}
	a.queue.left[a.task] = struct{}{}
	s.place(a.queue)
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

// Retry ends an attempt that has failed.
func (s *Schedule) Retry(a *Attempt, f Failure, now Instant) {
	r, why, at := retryOf(a.task), backingOff, f.At
	if f.At == 0 {
		if r.attempts == 0 {
			r.since = now
		}
		at = now + Instant(r.nextWait(&f)) // guard 14.4
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

// Resume ends an attempt that has changed nothing. The task waits as before, or goes if nothing is left to do.
func (s *Schedule) Resume(a *Attempt, now Instant) {
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
	open := a.task.openUntil()
	if a.Early || s.draining && open > now { // guard 14.25
		s.LeaveToNextStart(a, now)
		return
	}
	if open > now { // guard 14.1
		at = max(at, open)
	}
	a.task.removes = a.task.removes || a.removes
	s.stop(a, now)
	if a.task.retry != nil || at != 0 {
		r := retryOf(a.task)
		r.waiting, r.at = why, at
	}
	s.enqueue(a.queue, a.task, now)
}
