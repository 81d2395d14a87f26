package flush

import (
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Waits returns why nothing of a namespace's pending writes is sent now, and until when. The time is
// zero if no time ends the wait. why is empty if the namespace does not wait, or only for flush.linger.
func (f *Flusher) Waits(namespace string) (why string, until time.Time) {
	v := f.health.State()
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.schedule.queues.Get(namespace)
	if q == nil || q.tasks.Len() == 0 {
		return "", time.Time{}
	}
	now := f.now()
	why, at := f.startWaits(now)
	if why == "" {
		why, at = q.waits(now)
	}
	switch {
	case why != "":
	case q.running == 0:
		why, at = q.taskWaits(q.first(), now, v)
	case q.failing: // it is tried again
		why = "failed: " + q.reason
	}
	return why, f.wall(at)
}

// EntryWaits does the same as Waits for one entry's pending write.
func (f *Flusher) EntryWaits(id journal.ID) (why string, until time.Time) {
	v := f.health.State()
	f.mu.Lock()
	defer f.mu.Unlock()
	q, t := f.schedule.find(id)
	if t == nil || t.running {
		if t != nil && !t.untried() {
			why = "failed: " + t.retry.reason // it is tried again
		}
		return why, time.Time{}
	}
	why, at := f.waitsFor(q, t, f.now(), v)
	return why, f.wall(at)
}

// waitsFor returns why a task that is not running waits, and until when. The caller holds mu.
func (f *Flusher) waitsFor(q *queue, t *task, now instant, seen upstream.CircuitState) (why string, until instant) {
	if why, until = f.startWaits(now); why == "" {
		why, until = q.entryWaits(t, now, seen)
	}
	return why, until
}

// startWaits returns why nothing at all is sent, and until when. The caller holds mu.
func (f *Flusher) startWaits(now instant) (why string, until instant) {
	if f.schedule.notBefore <= now {
		return "", 0
	}
	return "unanswered: upstream may still carry out what an earlier process has sent", f.schedule.notBefore
}

// entryWaits returns why a task that is not running waits, and until when.
func (q *queue) entryWaits(t *task, now instant, seen upstream.CircuitState) (why string, until instant) {
	why, until = q.waits(now)
	if why == "" || t.openUntil() > max(now, until) {
		return q.taskWaits(t, now, seen)
	}
	return why, until
}

// waits returns why the whole namespace waits; until is 0 during a trial.
func (q *queue) waits(now instant) (why string, until instant) {
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
func (q *queue) taskWaits(t *task, now instant, seen upstream.CircuitState) (why string, until instant) {
	switch {
	case t == nil:
		return "", 0
	case t.retrying() && t.retry.at > now:
		return t.retry.waits(now), t.retry.at
	case q.ready(t) > now && (q.due(t) <= now || t.writtenAt+q.linger <= now): // not only for flush.linger
		return q.pace.waits(), q.ready(t)
	case q.due(t) <= now && seen.Down:
		return "upstream is down: " + seen.Reason, now + instant(seen.RetryIn)
	}
	return "", 0
}

func (r *retryState) waits(now instant) string {
	switch {
	case r.waiting == noRoom:
		return "disk full: it is sent when there is room for the record of its outcome"
	case r.openUntil > now:
		return "unanswered: upstream may still carry out the last request, which it did not answer"
	}
	return "failed: " + r.reason
}

// TryNow sends at once the writes that wait only for a time, of one namespace or, with "", all: the
// writes of a throttled or paused namespace, and those that wait after a failure. A late window goes on.
func (f *Flusher) TryNow(namespace string) {
	defer f.signal()
	f.health.Nudge()
	if namespace == "" {
		f.eachQueue(f.tryNow)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.schedule.queues.Get(namespace); q != nil {
		f.tryNow(q)
	}
}
