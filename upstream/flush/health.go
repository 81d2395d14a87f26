package flush

import (
	"time"

	"github.com/botwired/botwired/upstream"
)

// answered records that upstream has answered, if it was asked at all, at once: the journal's steps that follow wait for
// the disk, and a failure of another attempt meanwhile must count as the later one. With tookWrite, upstream has carried
// out the write.
func (a *attempt) answered(tookWrite bool) {
	if !a.asked.IsZero() || !a.sent.IsZero() {
		a.isUp(tookWrite)
	}
}

func (a *attempt) isUp(tookWrite bool) {
	f := a.f
	a.told = true
	f.health.Success(a.ID(), a.Probe)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.schedule.Answered(a.Attempt, tookWrite, a.took, f.opts.Slots.Concurrency().Now, f.now())
}

// failed records that a request has failed. If that is upstream's own refusal, upstream is healthy.
func (a *attempt) failed(failed *upstream.Error) {
	if failed.Verdict == upstream.Permanent || failed.Says() {
		a.isUp(false)
		return
	}
	f := a.f
	a.told = true
	a.down = f.health.Failure(a.ID(), a.Probe, failed, time.Now())
	if !failed.Verdict.BlamesUpstream() {
		return // perhaps only the namespace is refused by something in between
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.schedule.Failed(a.Attempt, failed.Reason, a.down, f.now())
}
