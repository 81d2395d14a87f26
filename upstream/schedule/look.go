package schedule

import (
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Queue returns a namespace's queue; nil if it has none.
func (s *Schedule) Queue(namespace string) *Queue { return s.queues.Get(namespace) }

// Walk visits about n queues, starting at a cursor. The schedule may change between two calls: see
// [hashtable.Table.Walk].
func (s *Schedule) Walk(cursor, n int, visit func(*Queue)) (next int, done bool) {
	return s.queues.Walk(cursor, n, visit)
}

// Announced returns the number of writes that the journal has announced: the position of the last one.
func (s *Schedule) Announced() uint64 { return s.announced }

// Saved returns how many of these needed no request, because a newer write to their entry replaced them.
func (s *Schedule) Saved() int64 { return s.saved }

// Pending returns the number of entries with a pending write.
func (s *Schedule) Pending() int { return s.pending }

// Running returns the number of attempts.
func (s *Schedule) Running() int { return len(s.running) }

// Pending returns the number of the namespace's entries with a pending write.
func (q *Queue) Pending() int { return q.pending }

// Paused returns why upstream does not let the namespace in; empty if it does, or nothing waits.
func (q *Queue) Paused() string {
	if q.tasks.Len() == 0 {
		return ""
	}
	return q.paused
}

// Full returns why upstream takes no puts of the namespace: it has no room for more. It is empty if upstream takes them,
// or nothing waits.
func (q *Queue) Full() string {
	if q.tasks.Len() == 0 {
		return ""
	}
	return q.full
}

// BeginDraining ends all lingering for good. It reports whether it had ended before.
func (s *Schedule) BeginDraining() (again bool) {
	again, s.draining = s.draining, true
	return again
}

// SendNothingBefore makes the schedule wait until then, unless it is draining: requests of an earlier process may still
// land.
func (s *Schedule) SendNothingBefore(at Instant) { s.notBefore = at }

// InWindow counts the namespace's entries inside a late window, whose last request may still land, and those of them with
// a pending write. It looks at every failed task of the queue.
func (s *Schedule) InWindow(q *Queue, now Instant) (entries, pending int) {
	if s.notBefore > now { // of an earlier process
		return q.tasks.Len(), q.pending
	}
	count := func(r *retryState) {
		entries++
		if r.task.first != 0 {
			pending++
		}
	}
	entries, pending = q.running, q.running // they may end without an answer
	q.eachInWindow(now, count)
	for t := range q.left {
		count(t.retry)
	}
	return entries, pending
}

// IsQuiet reports whether nothing is sent at all yet, as requests of an earlier process may still land.
func (s *Schedule) IsQuiet(now Instant) bool { return s.notBefore > now }

// Attempts returns how many attempts at an entry's pending write have failed since the last success, and why the last
// one did. It also returns the earliest time of the next: 0 while one runs, and otherwise not in the past. If nothing is
// pending, all results are zero.
func (s *Schedule) Attempts(id journal.ID, now Instant, seen upstream.CircuitState) (count int, last string, next Instant) {
	q, t := s.find(id)
	if t == nil {
		return 0, "", 0
	}
	if t.retry != nil {
		count, last = t.retry.attempts, t.retry.reason
	}
	if !t.running && !t.isLeft() {
		_, until := s.entryWaits(q, t, now, seen)
		next = max(now, q.ready(t), q.notBefore, until)
	}
	return count, last, next
}

// IsHeld reports whether an entry's pending write waits for its namespace, for upstream's return, for the end of a late
// window, or, as far as is known, until after a time; 0: none.
func (s *Schedule) IsHeld(id journal.ID, until, now Instant, seen upstream.CircuitState) bool {
	q, t := s.find(id)
	if t == nil || t.running {
		return false
	}
	why, at := s.entryWaits(q, t, now, seen)
	return why != "" && (seen.Down || q.blocked || q.full != "" && t.puts() || s.inWindow(t, now) || until != 0 && at > until) // guard 14.21
}

// Waits returns why nothing of a namespace's pending writes is sent now, and until when; 0 if no time ends the wait.
// why is empty if the namespace does not wait, or only for its linger.
func (s *Schedule) Waits(namespace string, now Instant, seen upstream.CircuitState) (why string, until Instant) {
	q := s.queues.Get(namespace)
	if q == nil || q.tasks.Len() == 0 {
		return "", 0
	}
	if why, until = s.startWaits(now); why == "" {
		why, until = q.waits(now)
	}
	switch {
	case why != "":
	case q.full != "":
		why, until = q.fullWaits(now)
	case q.running == 0:
		return q.taskWaits(q.first(), now, seen)
	case q.failing: // it is tried again
		why = "failed: " + q.reason
	}
	return why, until
}

// EntryWaits does the same as Waits for one entry's pending write.
func (s *Schedule) EntryWaits(id journal.ID, now Instant, seen upstream.CircuitState) (why string, until Instant) {
	q, t := s.find(id)
	switch {
	case t == nil:
		return "", 0
	case t.running && !t.untried():
		return "failed: " + t.retry.reason, 0 // it is tried again
	case t.running:
		return "", 0
	}
	return s.entryWaits(q, t, now, seen)
}

// entryWaits returns why a task that is not running waits, and until when.
func (s *Schedule) entryWaits(q *Queue, t *task, now Instant, seen upstream.CircuitState) (why string, until Instant) {
	if t.isLeft() {
		return "unanswered: upstream may still carry out an earlier request: the next start of botwired sends this", 0
	}
	if why, until = s.startWaits(now); why != "" {
		return why, until
	}
	if why, until = q.waits(now); why == "" || t.windowEnd() > max(now, until) {
		return q.taskWaits(t, now, seen)
	}
	return why, until
}

// startWaits returns why nothing at all is sent, and until when.
func (s *Schedule) startWaits(now Instant) (why string, until Instant) {
	if s.notBefore <= now {
		return "", 0
	}
	return "unanswered: upstream may still carry out what an earlier process has sent", s.notBefore
}

// fullWaits returns why the puts of a full namespace wait; until is 0 if one is due.
func (q *Queue) fullWaits(now Instant) (why string, until Instant) {
	if q.putsAt > now {
		until = q.putsAt
	}
	return "full: " + q.full, until
}

// waits returns why the whole namespace waits; until is 0 during a trial.
func (q *Queue) waits(now Instant) (why string, until Instant) {
	switch {
	case !q.blocked:
		return "", 0
	case q.paused != "":
		why = "paused: " + q.paused
	default:
		why = "throttled: " + q.throttled
	}
	if q.notBefore > now {
		until = q.notBefore
	}
	return why, until
}

// taskWaits returns why a task that is not running waits, and until when; t may be nil.
func (q *Queue) taskWaits(t *task, now Instant, seen upstream.CircuitState) (why string, until Instant) {
	switch {
	case t == nil:
		return "", 0
	case q.full != "" && t.puts() && q.putsAt > now && t.windowEnd() <= q.putsAt:
		return q.fullWaits(now)
	case t.retrying() && t.retry.at > now:
		return t.retry.waits(now), t.retry.at
	case q.ready(t) > now && (q.due(t) <= now || t.writtenAt+q.linger <= now): // not only for flush.linger
		return q.pace.waits(), q.ready(t)
	case q.due(t) <= now && seen.Down:
		return "upstream is down: " + seen.Reason, now + Instant(seen.RetryIn)
	}
	return "", 0
}

func (r *retryState) waits(now Instant) string {
	switch {
	case r.waiting == noRoom:
		return "disk full: it is sent when there is room for the record of its outcome"
	case r.windowEnd > now:
		return "unanswered: upstream may still carry out the last request, which it did not answer"
	}
	return "failed: " + r.reason
}

// TryNow ends the waits of a queue that only time would end, but no late window.
func (s *Schedule) TryNow(q *Queue, now Instant) {
	q.tryNow(now)
	s.Renew(q, now)
}
