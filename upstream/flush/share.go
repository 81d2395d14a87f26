package flush

import (
	"container/heap"
	"time"

	"github.com/botwired/botwired/upstream/limit"
)

// The requests that may be under way are shared out so that no namespace holds up another
// (contract 16): a request that hangs cannot be taken back.
const (
	// shareOfFree is how much one namespace may hold, in quarters, of the slots that the
	// others leave. The rest is for a namespace that has something to send next. A namespace
	// that has been the only one to send for aloneAfter, and whose requests are being
	// answered, may hold soloPart.
	shareOfFree = 3
	aloneAfter  = instant(time.Second)
	// shareOfFailing is how much of all slots, in quarters, the namespaces share whose
	// last request failed. Each of them has one request under way at a time, and one more
	// of an entry whose last request was not answered.
	shareOfFailing = 1
	quarters       = 4
	// A request hangs if it takes longer than hangsAfter and than hangsTrips usual round trips.
	hangsAfter = 250 * time.Millisecond
	hangsTrips = 4
	// firstRoundTrip stands for the usual round trip before there was one.
	firstRoundTrip = 50 * time.Millisecond
	// roundTripWeight is the share of a new round trip in the usual one: 1 in so many.
	roundTripWeight = 8
)

// patience returns the time after which a request counts as hanging.
func (s *schedule) patience() instant { return max(instant(hangsAfter), hangsTrips*s.roundTrip) }

// hung reports whether an attempt has taken longer than patience.
func (s *schedule) hung(a *attempt, now instant) bool { return now-a.startedAt > s.patience() }

// turns are the queues that wait for their turn, the failing ones apart.
type turns struct{ well, failing heapOf[*queue] }

// next returns the queue that goes now and does not hold its part of the slots already, or else when to
// ask again; 0 is after a change.
func (s *schedule) next(now instant) (q *queue, at instant) {
	heaps := []*heapOf[*queue]{&s.turns.well, &s.turns.failing}
	if s.failingRunning >= max(1, s.window*shareOfFailing/quarters) { // guard 16.21
		heaps = heaps[:1]
	}
	for _, h := range heaps {
		first := s.pick(h, func(q *queue) bool { return !s.over(q, now) })
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

// pick returns the first queue of a heap that will do; nil if there is none. Every queue without a request
// under way has to do: so pick passes over few.
func (s *schedule) pick(h *heapOf[*queue], does func(*queue) bool) (q *queue) {
	var passed []*queue
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

// over reports whether a queue holds its part of the slots already. A silent task does not count.
func (s *schedule) over(q *queue, now instant) bool {
	active, others := q.running-q.silent, len(s.running)-q.running
	if q.failing || active == 0 { // guard 16.22
		return active > 0
	}
	if q == s.sender && now-s.senderSince >= aloneAfter && now-q.answeredAt <= s.patience() {
		return active >= soloPart(s.window)-others-q.silent
	}
	part := (s.window - others - q.silent) * shareOfFree
	if others > 0 {
		part += quarters - 1 // rounded up, or the last free slot would stay free
	}
	return active >= part/quarters // guard 16.20
}

// soloPart returns how many slots the writes of one namespace may have. Should they hang, one is left
// for the writes of another, and one for reads if any are kept for them.
func soloPart(total int) int {
	return max(1, min(limit.MostOf(total), total-1-min(1, total-limit.MostOf(total))))
}

// fails notes whether the last request of a queue blames upstream.
func (s *schedule) fails(q *queue, failing bool) {
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
// else its next task has failed quickly. One such request at a time keeps a healthy namespace from
// waiting for the others. at is when to ask again; 0 is after a change.
func (s *schedule) hopeful(now instant) (q *queue, at instant) {
	if s.hoping != nil || s.probing == nil && !s.hanging { // guard 16.24
		return nil, 0
	}
	if s.probing != nil {
		if at = s.probing.startedAt + s.patience(); at > now {
			return nil, at
		}
	}
	at = 0
	for _, h := range []*heapOf[*queue]{&s.turns.well, &s.turns.failing} {
		q := s.pick(h, func(q *queue) bool { return q.running == 0 })
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

// hopes reports whether the task that a queue would send next may well be answered.
func (q *queue) hopes() bool {
	t := q.first()
	if q.failing {
		return t.retrying() && t.retry.waiting == backingOff && t.retry.attempts > 0 // guard 16.25
	}
	return !t.isSilent()
}

// sooner returns the earlier of two times; 0 is none.
func sooner(a, b instant) instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
