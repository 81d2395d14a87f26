package flush

import (
	"log/slog"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/limit"
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
	since instant
	count int
}

type refusalsOf map[string]refusals

// mayKill counts a refusal, and reports whether the write may become a dead letter.
func (all refusalsOf) mayKill(namespace string, now instant) bool {
	r, ok := all[namespace]
	if !ok || now-r.since >= instant(refusalSpan) {
		r = refusals{since: now}
	}
	r.count++
	limit.Remember(all, namespace, r)
	return r.count <= refusalsAllowed // guard 15.6
}

// refused decides about a write that upstream refuses for good: it becomes a dead letter, or waits if
// there are too many of them.
func (a *attempt) refused(w journal.Write, failed *upstream.Error) (ending, error) {
	why := journal.Failure{Status: failed.Status, Reason: failed.Reason}
	e := failing("it refuses one write after another: ", failed)
	if e.admits = a.countRefusal(w); e.admits == refusing {
		return e, nil
	}
	if err := a.f.opts.Journal.DeadLetter(w, why); err != nil {
		return ending{}, err
	}
	return a.dead(e, w, slog.LevelWarn, "upstream refused a write for good: it is a dead letter now", "reason", failed.Reason)
}

// countRefusal counts a refusal, and returns what it says about the namespace. If that is refusing, the
// write waits. Another write is tried every BackoffMax, and the first that upstream accepts ends the pause.
func (a *attempt) countRefusal(w journal.Write) admission {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	q, r, now := a.queue, retryOf(a.task), a.f.now()
	if r.refusedSeq != w.Seq {
		r.refusedSeq, r.refusedAt = w.Seq, now
	}
	switch {
	case !q.refusing && a.f.refusals.mayKill(q.Key(), now):
		return letIn
	case q.refusing && now-r.refusedAt >= instant(refusalBelieved):
		q.notBefore = now + instant(a.f.opts.BackoffMax)
		return asBefore
	}
	return refusing
}
