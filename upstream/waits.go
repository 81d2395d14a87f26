package upstream

import (
	"time"

	"github.com/botwired/botwired/journal"
)

// Waits says why nothing of a namespace's pending writes is sent now, and until when; a
// time of zero is when something else has happened. Why is empty if the namespace waits for
// nothing, or only for its linger.
func (f *Flusher) Waits(namespace string) (why string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.schedule.queues.Get(namespace)
	if q == nil || q.tasks.Len() == 0 {
		return "", time.Time{}
	}
	if why, until = f.blocked(q); why != "" {
		return why, until
	}
	if q.running > 0 {
		return "", time.Time{}
	}
	return f.taskWaits(q, q.first())
}

// EntryWaits is Waits for one entry's pending write.
func (f *Flusher) EntryWaits(id journal.ID) (why string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, t := f.schedule.find(id)
	if t == nil || t.running {
		return "", time.Time{}
	}
	if why, until = f.taskWaits(q, t); t.retrying() && t.retry.waiting == doubting && why != "" {
		return why, until // also in a namespace that waits
	}
	if why, until := f.blocked(q); why != "" {
		return why, until
	}
	return why, until
}

// blocked says why a whole namespace waits. The caller holds mu.
func (f *Flusher) blocked(q *queue) (why string, until time.Time) {
	switch {
	case !q.blocked:
		return "", time.Time{}
	case q.paused != "":
		why = "paused: " + q.paused
	default:
		why = "throttled: " + q.throttled
	}
	if q.notBefore > f.now() {
		until = f.clock(q.notBefore)
	}
	return why, until
}

// taskWaits says why a task that is not running waits. The caller holds mu.
func (f *Flusher) taskWaits(q *queue, t *task) (why string, until time.Time) {
	now := f.now()
	switch {
	case t == nil:
	case t.retrying() && t.retry.at > now:
		return f.retryWaits(t.retry)
	case q.due(t) > now:
	default:
		if v := f.health.view(); v.down {
			return "upstream is down: " + v.reason, now.in(f, v.retryIn)
		}
	}
	return "", time.Time{}
}

func (f *Flusher) retryWaits(r *retryState) (why string, until time.Time) {
	until = f.clock(r.at)
	switch {
	case r.waiting == noRoom:
		return "disk full: it is sent when there is room for the record of its outcome", until
	case r.waiting != doubting:
		return "failed: " + r.reason, until
	case r.doubt != nil && r.doubt.confirmed != nil:
		return "in doubt: upstream has confirmed it, and may still carry out an earlier request that it did not answer", until
	}
	return "in doubt: upstream may still carry out a request that an earlier process sent", until
}

// in is the time on the wall clock some time after an instant.
func (at instant) in(f *Flusher, d time.Duration) time.Time { return f.clock(at + instant(d)) }

// TryNow has what waits only for a time tried at once, of one namespace or, with "", of
// all: what is throttled, paused, or waits after a failure. What is in doubt goes on
// waiting.
func (f *Flusher) TryNow(namespace string) {
	f.health.nudge()
	f.tryNow(namespace)
	f.signal()
}

func (f *Flusher) tryNow(namespace string) {
	if namespace == "" {
		f.inSome(f.schedule.tryNowSome)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.schedule.queues.Get(namespace); q != nil {
		f.schedule.tryNow(q)
	}
}
