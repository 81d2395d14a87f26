package schedule

import (
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// Attempt is one run of a task. The task belongs to it until [Schedule.End]. Its exported fields never
// change.
type Attempt struct {
	Newest uint64     // the entry's newest known write when the attempt began
	Probe  bool       // it tests whether an outage is over
	Trial  bool       // it tests whether the namespace is let in again
	Early  bool       // it is made inside a late window, as the process is about to end: see the package's doc
	Counts bool       // it sends a write, which a quota counts
	Kind   quota.Kind // of that write

	queue     *Queue
	task      *task
	newer     uint64 // position of the first write that this attempt does not send; 0: none
	startedAt Instant
	silent    bool          // the entry's last request hung
	fills     bool          // it tests whether a full namespace has room again
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
	s.concurrency = min(s.concurrency, usual)
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
	if q != nil && len(s.running) < s.concurrency {
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

// start begins an attempt at a due task of the queue. A probe takes a task that has not failed, if the
// fresh queue has one that is due.
func (s *Schedule) start(q *Queue, now Instant, probe bool) *Attempt {
	t := q.first()
	if f := s.fresh; probe && f != nil && !f.blocked {
		if untried := f.untried(); untried != nil && untried.untried() && f.ready(untried) <= now {
			q, t = f, untried
		}
	}
	fills := q.full != "" && t.puts()
	if other := q.firstOn(&q.others); fills && other != nil && q.ready(other) <= now { // guard 15.17
		t, fills = other, false // a delete makes room
	}
	switch {
	case fills:
		q.putsAt = now + q.fullEvery // guard 18.42
	case q.full == "" && !probe && !q.blocked && !q.pace.spread: // guard 18.10
		// guard 10.19
		t = q.choose(now)
	}
	a := &Attempt{
		Newest: t.seq, Probe: probe, Trial: q.blocked, Early: s.inWindow(t, now), Counts: t.first != 0, Kind: q.kindOf(t),
		queue: q, task: t, startedAt: now, silent: t.isSilent(), fills: fills,
	}
	q.remove(t)
	s.begin(a)
	return a
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
	q.remove(t)
	s.begin(a)
	return a, nil
}

// begin records the start of an attempt. Its task is in no line.
func (s *Schedule) begin(a *Attempt) {
	q := a.queue
	a.task.running = true
	s.running[a.task] = a
	q.running++
	if q.failing {
		s.failingRunning++
	}
	if a.silent {
		q.silent++
	}
	s.turn++
	q.served = s.turn
	q.servedAt = a.startedAt
	if s.sender != q {
		s.sender, s.senderSince = q, a.startedAt
	}
	s.place(q)
}

// SetWrite records the number of the entry's write that the attempt sends: only a newer one is left to send.
func (s *Schedule) SetWrite(a *Attempt, seq uint64) {
	if a.task.seq <= seq {
		a.task.seq, a.newer = seq, 0
	}
}

// HasNewer reports whether a newer write to the entry than the one with a number is known.
func (s *Schedule) HasNewer(a *Attempt, seq uint64) bool { return a.task.seq > seq }

// Answered records that upstream has given a verdict. With tookWrite, it has carried out a write, which took so long.
// usual is the most requests in flight.
func (s *Schedule) Answered(a *Attempt, tookWrite bool, took time.Duration, usual int, now Instant) {
	q, r := a.queue, a.task.retry
	s.hanging = false
	s.concurrency = min(s.concurrency+1, usual)
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
		s.concurrency = 1
	}
}

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
