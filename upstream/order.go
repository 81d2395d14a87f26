package upstream

import "time"

// A namespace with little to send sends one entry after the other, in the order of the
// writes, and upstream lists them so. A namespace with much uses all of its part of the
// concurrency: its requests begin in the order of the writes, one a moment after the other.
const (
	// inOrderBacklog is how long a backlog may take one entry after the other to count as
	// little: some 10 s on a machine that is busy. Its last writes reach upstream that much
	// later than they could.
	inOrderBacklog = 15 * time.Second
	// inOrderTasks is the most entries that count as little, however fast upstream is:
	// each request looks at all of them for the oldest write.
	inOrderTasks = 1000
	// overtakeAfter is how long a request may at least keep the next one from being sent,
	// and overtakeTrips for how many of the usual round trips. The entry of a request that
	// takes longer may be sick.
	overtakeAfter = 250 * time.Millisecond
	overtakeTrips = 4
	// inOrderAgain is how few entries are left of a backlog that was much, when they count as
	// little again. Were it more, the end of a backlog would take as long as all before.
	inOrderAgain = 16
	// staggeredBy is how often a namespace with much could fill the window within a round
	// trip. Were it once only, its requests would not catch up where some take longer.
	staggeredBy = 2
	// excusesMax is how often a failure of an entry is put down to upstream since the entry's
	// last success. Without it a sick entry could keep the others for ever from settling,
	// while upstream fails now and then for others, too. Where upstream refuses connections
	// for seconds and goes on answering on those that it has, the order may be lost.
	excusesMax = 16
	// firstRoundTrip stands for the usual round trip before there was one.
	firstRoundTrip = 50 * time.Millisecond
	// roundTripWeight is the share of a new round trip in the usual one: 1 in so many.
	roundTripWeight = 8
)

// inOrder reports whether a queue sends one entry after the other.
func (s *schedule) inOrder(q *queue) bool {
	n := q.tasks.Len()
	switch {
	case s.unordered:
		return false
	case n > inOrderTasks || instant(n)*s.roundTrip > instant(inOrderBacklog):
		q.staggered = true
	case n <= inOrderAgain:
		q.staggered = false
	}
	return !s.draining && !q.staggered
}

// overtook reports whether a write that upstream has confirmed went before an older one of
// its queue that had failed by upstream's fault. All of the queue that has failed so is sent
// again at once, now that upstream is well. A queue that spreads its writes does not send in
// their order, and spends nothing on it.
func (s *schedule) overtook(q *queue, seq uint64) (older bool) {
	if !s.inOrder(q) {
		return false
	}
	h, moved := &q.retries[backingOff], false
	for i := range h.len {
		r := h.at(i)
		if r.failedIn == 0 || r.failedIn > s.excusedUpTo || r.excuses >= excusesMax {
			continue
		}
		if r.at != atOnce {
			r.at = atOnce
			r.excuses++
			moved = true
		}
		older = older || r.task.seq < seq
	}
	if moved {
		h.rebuild()
		s.place(q)
	}
	return older && !q.pace.spread
}

// followsAt is when a queue may send another entry while one of its requests is under way.
func (s *schedule) followsAt(q *queue) instant {
	if q.inOrder == 0 || s.unordered {
		return 0
	}
	if s.inOrder(q) {
		return q.inOrderAt + s.patience()
	}
	return q.inOrderAt + s.roundTrip/instant(staggeredBy*max(1, s.window))
}

// patience is how long a request may take before others need not wait for it.
func (s *schedule) patience() instant { return max(instant(overtakeAfter), overtakeTrips*s.roundTrip) }

// hung reports whether an attempt has taken longer than patience.
func (s *schedule) hung(a *attempt, now instant) bool { return now-a.startedAt > s.patience() }

// usualTrip is how long a write usually takes, with its fence.
func usualTrip(f *Flusher) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.schedule.roundTrip)
}

// Saved is how many writes since the start needed no request upstream, as a newer one to their
// entry took their place before they were sent.
func Saved(f *Flusher) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.schedule.saved
}

// tookTrip takes in how long a write took that upstream carried out, with its fence.
func tookTrip(f *Flusher, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.schedule.roundTrip += (instant(took) - f.schedule.roundTrip) / roundTripWeight
}
