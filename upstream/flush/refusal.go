package flush

import (
	"log/slog"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/limit"
	"github.com/botwired/botwired/upstream/schedule"
)

// A write that upstream refuses for good becomes a dead letter, and readers no longer see it. When
// upstream refuses one write after another, a fault of upstream or a gateway is more likely than a
// fault in every write.
const (
	// refusalsAllowed bounds the writes of a namespace that become dead letters within refusalSpan: a
	// person can look through that many. The next refusal pauses the namespace.
	refusalsAllowed = 5
	refusalSpan     = time.Minute
	// refusalBelieved is how long upstream has to refuse a write of such a paused namespace before the
	// write becomes a dead letter. Without it, the other writes would wait forever.
	refusalBelieved = time.Hour
)

type refusals struct {
	since schedule.Instant
	count int
}

type refusalsOf map[string]refusals

// mayKill counts a refusal, and reports whether the write may become a dead letter.
func (all refusalsOf) mayKill(namespace string, now schedule.Instant) bool {
	r, ok := all[namespace]
	if !ok || now-r.since >= schedule.Instant(refusalSpan) {
		r = refusals{since: now}
	}
	r.count++
	limit.Remember(all, namespace, r)
	return r.count <= refusalsAllowed // guard 15.6
}

// refused decides about a write that upstream refuses for good: it becomes a dead letter, or waits if
// there are too many of them.
func (a *attempt) refused(failed *upstream.Error) (ending, error) {
	e := failing("it refuses one write after another: ", failed)
	if e.admits = a.countRefusal(); e.admits == refusing {
		return e, nil
	}
	if err := a.f.opts.Journal.DeadLetter(a.write, journal.Failure{Status: failed.Status, Reason: failed.Reason}); err != nil {
		return ending{}, err
	}
	return a.dies(e, a.write, slog.LevelWarn, "upstream refused a write for good: it is a dead letter now", "reason", failed.Reason)
}

// countRefusal counts a refusal, and returns what it says about the namespace. If that is refusing, the
// write waits. Another write is tried every BackoffMax, and the first that upstream accepts ends the pause.
func (a *attempt) countRefusal() admission {
	f := a.f
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	since, refuses := f.schedule.RefusedSince(a.Attempt, a.write.Seq, now)
	switch {
	case !refuses && f.refusals.mayKill(a.Namespace(), now):
		return letIn
	case refuses && now-since >= schedule.Instant(refusalBelieved):
		f.schedule.HoldBack(a.Attempt, now+schedule.Instant(f.opts.BackoffMax))
		return asBefore
	}
	return refusing
}
