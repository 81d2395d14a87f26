package upstream

// The requests that may be under way are shared out so that no namespace holds up another
// (contract 16): a request that hangs cannot be taken back.
const (
	// shareOfFree is the part of the slots that the others leave which one namespace may
	// hold, in quarters. The rest is for a namespace that has something to send next.
	shareOfFree = 3
	// shareOfFailing is how much of all slots, in quarters, the namespaces share whose
	// last request failed. Each of them has one request under way at a time, and one more
	// of an entry whose last request was not answered.
	shareOfFailing = 1
	quarters       = 4
)

// turns is where the queues wait for their turn, those that are failing apart.
type turns struct{ well, failing heapOf[*queue] }

func (s *schedule) turnsOf(q *queue) *heapOf[*queue] {
	if q.failing {
		return &s.turns.failing
	}
	return &s.turns.well
}

// next returns the queue whose turn it is now, or else when to ask again: 0 is when a
// request has ended or something has changed.
func (s *schedule) next(now instant) (q *queue, at instant) {
	heaps := []*heapOf[*queue]{&s.turns.well, &s.turns.failing}
	if s.failingRunning >= max(1, s.window*shareOfFailing/quarters) {
		heaps = heaps[:1]
	}
	for _, h := range heaps {
		first := s.choose(h)
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

// choose returns the first queue of a heap that does not hold its part of the slots
// already; nil if there is none. It passes over no more queues than have requests under way.
func (s *schedule) choose(h *heapOf[*queue]) (q *queue) {
	var over []*queue
	for h.len > 0 && q == nil {
		if q = h.first(); s.over(q) {
			h.remove(q.index)
			over = append(over, q)
			q = nil
		}
	}
	for _, other := range over {
		h.push(other)
	}
	return q
}

// over reports whether a queue holds its part of the slots already. A silent task beside the
// others is not held against it: it may hang.
func (s *schedule) over(q *queue) bool {
	active, others := q.running-q.silent, len(s.running)-q.running
	if q.failing || active == 0 {
		return active > 0
	}
	part := (s.window - others - q.silent) * shareOfFree
	if others > 0 {
		part += quarters - 1 // nobody's last slot is kept free
	}
	return active >= part/quarters
}

// fails notes whether the last answer to a request of a queue, or its lack, blames
// upstream.
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

// hopeful returns a queue that may send a request though upstream is believed down, because
// the requests of others hang: nothing of its own has failed, and its task is untried. One
// such request at a time keeps a namespace that is well from waiting for those that are not.
//
// at is when to ask again; 0 is when something has changed.
func (s *schedule) hopeful(now instant) (q *queue, at instant) {
	if s.hoping != nil {
		return nil, 0
	}
	if q = s.choose(&s.turns.well); q == nil || q.running > 0 {
		return nil, 0
	}
	if q.readyAt > now {
		return nil, q.readyAt
	}
	if t := q.untried(); t == nil || !t.untried() || q.due(t) > now {
		return nil, 0
	}
	return q, 0
}

// sooner is the earlier of two times, of which 0 is none.
func sooner(a, b instant) instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
