package schedule

import (
	"container/heap"
	"time"

	"github.com/botwired/botwired/upstream/limit"
)

// The slots are shared so that no namespace holds up another (contract 16): a request that hangs cannot
// be taken back.
const (
	// shareOfFree is how many quarters of the slots left by the others one namespace may hold. The rest
	// is for the next namespace with something to send. A namespace that has been the only sender for
	// aloneAfter, and whose requests are answered, may hold soloPart.
	shareOfFree = 3
	aloneAfter  = Instant(time.Second)
	// shareOfFailing is how many quarters of all slots are shared by the namespaces whose last request
	// failed. Each of them has one request in flight, and one more for an entry whose last request was
	// not answered.
	shareOfFailing = 1
	quarters       = 4
	// A request hangs if it takes longer than both hangsAfter and hangsTrips usual round trips.
	hangsAfter = 250 * time.Millisecond
	hangsTrips = 4
	// firstRoundTrip is the assumed round trip before the first one.
	firstRoundTrip = 50 * time.Millisecond
	// roundTripWeight smooths the usual round trip: a new one counts for 1 in so many.
	roundTripWeight = 8
)

// patience returns the time after which a request counts as hanging.
func (s *Schedule) patience() Instant { return max(Instant(hangsAfter), hangsTrips*s.roundTrip) }

// hung reports whether an attempt has taken longer than patience.
func (s *Schedule) hung(a *Attempt, now Instant) bool { return now-a.startedAt > s.patience() }

// turns holds the queues that wait for their turn, the failing ones separately.
type turns struct{ well, failing heapOf[*Queue] }

// inTurn returns the queue to serve now that does not already hold its share of the slots. If there is
// none, it returns when to ask again; 0 means after a change.
func (s *Schedule) inTurn(now Instant) (q *Queue, at Instant) {
	heaps := []*heapOf[*Queue]{&s.turns.well, &s.turns.failing}
	if s.failingRunning >= max(1, s.concurrency*shareOfFailing/quarters) { // guard 16.21
		heaps = heaps[:1]
	}
	for _, h := range heaps {
		first := s.pick(h, func(q *Queue) bool { return !s.over(q, now) })
		switch {
		case first == nil:
		case first.readyAt > now:
			at = sooner(at, first.readyAt)
		case q == nil || first.before(q):
			q = first
		}
	}
	return q, at
}

// pick returns the first queue of a heap for which does returns true; nil if there is none. It must
// return true for every queue without a request in flight, so that pick passes over few.
func (s *Schedule) pick(h *heapOf[*Queue], does func(*Queue) bool) (q *Queue) {
	var passed []*Queue
	for len(*h) > 0 && q == nil {
		if q = (*h)[0]; !does(q) {
			heap.Remove(h, q.index)
			passed = append(passed, q)
			q = nil
		}
	}
	for _, other := range passed {
		heap.Push(h, other)
	}
	return q
}

// over reports whether a queue already holds its share of the slots. Silent tasks do not count.
func (s *Schedule) over(q *Queue, now Instant) bool {
	active, others := q.running-q.silent, len(s.running)-q.running
	if q.failing || active == 0 { // guard 16.22
		return active > 0
	}
	if q == s.sender && now-s.senderSince >= aloneAfter && now-q.answeredAt <= s.patience() {
		return active >= soloPart(s.concurrency)-others-q.silent
	}
	part := (s.concurrency - others - q.silent) * shareOfFree
	if others > 0 {
		part += quarters - 1 // rounded up, or the last free slot would stay free
	}
	return active >= part/quarters // guard 16.20
}

// soloPart returns how many slots the writes of one namespace may hold. If they hang, one is left for
// the writes of another, and one for reads if any are reserved for them.
func soloPart(total int) int {
	return max(1, min(limit.MostOf(total), total-1-min(1, total-limit.MostOf(total))))
}

// fails records whether a queue's last request blames upstream.
func (s *Schedule) fails(q *Queue, failing bool) {
	if q.failing == failing {
		return
	}
	q.failing = failing
	if failing {
		s.failingRunning += q.running
	} else {
		s.failingRunning -= q.running
	}
	s.place(q)
}

// hopeful returns a queue that may send a request while probes hang: its last request did not fail, or
// its next task failed quickly. One such request at a time keeps a healthy namespace from waiting for
// the others. at is when to ask again; 0 means after a change.
func (s *Schedule) hopeful(now Instant) (q *Queue, at Instant) {
	if s.hoping != nil || s.probing == nil && !s.hanging { // guard 16.24
		return nil, 0
	}
	if s.probing != nil {
		if at = s.probing.startedAt + s.patience(); at > now {
			return nil, at
		}
	}
	at = 0
	for _, h := range []*heapOf[*Queue]{&s.turns.well, &s.turns.failing} {
		q := s.pick(h, func(q *Queue) bool { return q.running == 0 })
		switch {
		case q == nil:
		case q.readyAt > now:
			at = sooner(at, q.readyAt)
		case q.hopes():
			return q, 0
		}
	}
	return nil, at
}

// hopes reports whether the queue's next task is likely to be answered.
func (q *Queue) hopes() bool {
	t := q.first()
	if q.failing {
		return t.retrying() && t.retry.waiting == backingOff && t.retry.attempts > 0 // guard 16.25
	}
	return !t.isSilent()
}
