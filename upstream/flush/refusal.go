package flush

import (
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

// refused ends an attempt whose write upstream refuses for good: the write becomes a dead letter, or
// waits if there are too many of them. Earlier unanswered requests stay in doubt.
//
// If a confirmed write is waiting to be read back, it does not settle instead: an older one may have
// landed over it. The next read asks upstream.
func (a *attempt) refused(w journal.Write, failed *upstream.Error) error {
	why := journal.Failure{Status: failed.Status, Reason: failed.Reason, InDoubt: a.task.mayHaveLanded(), MayLand: a.task.doubt() != nil} // guard 7.9
	a.answered(false)
	if a.tooMany(w, failed) {
		a.f.opts.namespaceFull(w.Namespace, failed)
		return nil
	}
	if err := a.f.opts.Journal.DeadLetter(w, why); err != nil {
		return err
	}
	a.f.opts.namespaceFull(w.Namespace, failed) // after the dead letter, so that this write does not count
	if superseded, err := a.superseded(w); superseded || err != nil {
		return err
	}
	a.f.opts.Logger.Error("upstream refused a write for good: it is a dead letter now",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq, "reason", failed.Reason)
	a.finish(w.Seq, true)
	return nil
}

func (o *Options) namespaceFull(namespace string, failed *upstream.Error) {
	if failed.NamespaceFull && o.OnNamespaceFull != nil {
		o.OnNamespaceFull(namespace)
	}
}

// tooMany pauses the namespace, and ends the attempt, if upstream refuses one of its writes after
// another. Another write is tried every BackoffMax, and the first that upstream accepts ends the pause.
func (a *attempt) tooMany(w journal.Write, failed *upstream.Error) bool {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	q, r, now := a.queue, retryOf(a.task), a.f.now()
	if r.refusedSeq != w.Seq {
		r.refusedSeq, r.refusedAt = w.Seq, now
	}
	if !q.refusing && a.f.refusals.mayKill(q.Key(), now) {
		if a.trial {
			a.f.schedule.unblock(q) // upstream lets it in
		}
		return false
	}
	if q.refusing && now-r.refusedAt >= instant(refusalBelieved) {
		q.notBefore = now + instant(a.f.opts.BackoffMax)
		return false
	}
	q.refusing = true
	every := *failed
	every.Reason = "it refuses one write after another: " + failed.Reason
	a.pause(&every)
	return true
}

// superseded ends the attempt if its write did not become a dead letter because a newer write to the
// entry is pending. Callers then wait for the newer one.
func (a *attempt) superseded(w journal.Write) (bool, error) {
	a.f.mu.Lock()
	newer := a.task.seq > w.Seq
	a.f.mu.Unlock()
	if !newer { // guard 13.17
		return false, nil
	}
	if _, dead, err := a.f.opts.Journal.IsDead(w.ID, w.Seq); dead || err != nil {
		return false, err
	}
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.f.schedule.stop(a, a.f.now())
	a.beginAnew()
	return true, nil
}
