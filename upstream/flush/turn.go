package flush

import (
	"context"
	"time"

	"github.com/botwired/botwired/upstream/quota"
)

// pace says when a namespace's quota admits tasks. The zero value means no quota.
type pace struct {
	limited bool // there is a quota
	spread  bool // the writes are spread over the window
	linger  instant
	maxAge  time.Duration
	// No task of a kind is admitted before these times; 0 means at once.
	ordinaryAt, promptAt, demandedAt instant
	endsAt                           instant // end of the window
}

// renew updates the pace from the quota. The caller places the queue again.
func (q *queue) renew(qs *quota.Quotas, now instant) {
	if qs == nil {
		return
	}
	t := qs.Terms(q.Key(), time.Duration(q.linger), q.pending)
	if !t.Limited {
		if q.pace.limited {
			q.pace = pace{} // there was a quota before the configuration was reloaded
		}
		return
	}
	at := func(wait time.Duration) instant {
		if wait <= 0 {
			return 0
		}
		return now + instant(wait)
	}
	q.pace = pace{
		limited: true, spread: t.Spread, linger: instant(t.Linger), maxAge: t.MaxAge,
		ordinaryAt: at(t.Ordinary), promptAt: at(t.Prompt), demandedAt: at(t.Demanded), endsAt: at(t.Ends),
	}
}

// widened returns when a task's linger ends. A linger longer than flush.linger ends with the window.
func (p *pace) widened(writtenAt, linger instant) instant {
	if p.linger <= linger {
		return writtenAt + linger
	}
	return min(writtenAt+p.linger, max(writtenAt+linger, p.endsAt))
}

func (q *queue) kindOf(t *task) quota.Kind {
	switch {
	case t.first <= q.urgentUpTo:
		return quota.Demanded
	case t.urgent, t.removes:
		return quota.Prompt
	}
	return quota.Ordinary
}

// turnOf returns when the quota admits a task. A task that only waits for the end of a window costs nothing.
func (q *queue) turnOf(t *task) instant {
	if !q.pace.limited || t.first == 0 {
		return 0
	}
	return [...]instant{quota.Ordinary: q.pace.ordinaryAt, quota.Prompt: q.pace.promptAt, quota.Demanded: q.pace.demandedAt}[q.kindOf(t)]
}

func (p *pace) waits() string {
	if p.demandedAt > 0 {
		return "quota: used up"
	}
	return "quota: spread over the window"
}

// charge charges the quota for an attempt that is about to begin.
func (a *attempt) charge(qs *quota.Quotas, now instant) {
	q, t := a.queue, a.task
	if t.first != 0 {
		a.charged = qs.Spend(q.Key(), q.kindOf(t))
		a.flying = a.charged
		q.renew(qs, now)
	}
	a.removes, t.removes = t.removes, false
}

// takeBack refunds a request that upstream has not counted.
func (a *attempt) takeBack() {
	if a.charged {
		a.charged = false
		a.f.opts.Quotas.GiveBack(a.queue.Key())
	}
}

// saves reports whether a new write to the task's entry replaces one that was never sent. running is nil if there is
// no attempt.
func (t *task) saves(running *attempt) bool {
	if running != nil {
		return running.newer != 0
	}
	return t.first != 0 && t.untried()
}

// renewEvery is the time between two renewals of all paces: the wall clock may jump.
const renewEvery = time.Minute

func (f *Flusher) renewPaces(ctx context.Context) error {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-f.opts.Quotas.Changes():
		}
		f.eachQueue(f.renew)
		f.signal()
	}
}

// renew updates a queue's pace. The caller holds mu.
func (f *Flusher) renew(q *queue) {
	q.renew(f.opts.Quotas, f.now())
	f.schedule.place(q)
}

// tryNow ends the waits of a queue that a person may end. The caller holds mu.
func (f *Flusher) tryNow(q *queue) {
	q.tryNow(f.now())
	f.opts.Quotas.Lift(q.Key())
	f.renew(q)
}
