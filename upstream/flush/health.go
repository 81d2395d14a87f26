package flush

import (
	"time"

	"github.com/botwired/botwired/upstream"
)

// answered records that upstream has given a verdict, at once: the journal's steps that follow wait for
// the disk, and a failure of another attempt meanwhile must count as the later one. With tookWrite,
// upstream has carried out a write; took is the time of that write, including its fence.
func (a *attempt) answered(tookWrite bool, took time.Duration) {
	f := a.f
	a.heard = true
	f.health.Success(a.id(), a.probe)
	f.mu.Lock()
	defer f.mu.Unlock()
	s, r := f.schedule, a.task.retry
	s.hanging = false
	s.window = min(s.window+1, f.opts.Slots.Concurrency().Now)
	a.queue.answeredAt = f.now()
	if a.silent {
		a.queue.silentMore++
	}
	s.fails(a.queue, false)
	if r != nil {
		r.hung = false
	}
	if tookWrite {
		s.roundTrip += (instant(took) - s.roundTrip) / roundTripWeight
		if r != nil {
			r.attempts, r.backoff = 0, nil
		}
	}
}

// failed records that a request has failed. If that is upstream's own refusal, upstream is healthy.
func (a *attempt) failed(failed *upstream.Error) {
	if failed.Verdict == upstream.Permanent || failed.Says() {
		a.answered(false, 0)
		return
	}
	f := a.f
	a.heard = true
	a.down = f.health.Failure(a.id(), a.probe, failed, time.Now())
	if !failed.Verdict.BlamesUpstream() {
		return // perhaps only the namespace is refused by something in between
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.schedule
	s.fails(a.queue, true)
	a.queue.reason = failed.Reason
	s.hanging = s.hanging || a.down && s.hung(a, f.now())
	if a.down { // guard 16.5
		s.window = 1
	}
}
