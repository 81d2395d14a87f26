package schedule

import (
	"time"

	"github.com/botwired/botwired/upstream/quota"
)

// pace says when a namespace's quota admits tasks. The zero value means no quota.
type pace struct {
	limited bool // there is a quota
	spread  bool // the writes are spread over the window
	linger  Instant
	maxAge  time.Duration
	// No task of a kind is admitted before these times; 0 means at once.
	ordinaryAt, promptAt, demandedAt Instant
	endsAt                           Instant // end of the window
}

// Renew updates a queue's pace from its quota.
func (s *Schedule) Renew(q *Queue, now Instant) {
	s.renew(q, now)
	s.place(q)
}

// renew does the same. The caller places the queue again.
func (s *Schedule) renew(q *Queue, now Instant) {
	if s.terms == nil {
		return
	}
	t := s.terms(q.Key(), time.Duration(q.linger), q.pending)
	if !t.Limited {
		if q.pace.limited {
			q.pace = pace{} // there was a quota before the configuration was reloaded
		}
		return
	}
	at := func(wait time.Duration) Instant {
		if wait <= 0 {
			return 0
		}
		return now + Instant(wait)
	}
	q.pace = pace{
		limited: true, spread: t.Spread, linger: Instant(t.Linger), maxAge: t.MaxAge,
		ordinaryAt: at(t.Ordinary), promptAt: at(t.Prompt), demandedAt: at(t.Demanded), endsAt: at(t.Ends),
	}
}

// widened returns when a task's linger ends. A linger longer than flush.linger ends with the window.
func (p *pace) widened(writtenAt, linger Instant) Instant {
	if p.linger <= linger {
		return writtenAt + linger
	}
	return min(writtenAt+p.linger, max(writtenAt+linger, p.endsAt))
}

func (q *Queue) kindOf(t *task) quota.Kind {
	switch {
	case t.first <= q.urgentUpTo:
		return quota.Demanded
	case t.urgent, t.deletes:
		return quota.Prompt
	}
	return quota.Ordinary
}

// turnOf returns when the quota admits a task. A task that only waits for the end of a window costs nothing.
func (q *Queue) turnOf(t *task) Instant {
	if !q.pace.limited || t.first == 0 {
		return 0
	}
	return [...]Instant{quota.Ordinary: q.pace.ordinaryAt, quota.Prompt: q.pace.promptAt, quota.Demanded: q.pace.demandedAt}[q.kindOf(t)]
}

func (p *pace) waits() string {
	if p.demandedAt > 0 {
		return "quota: used up"
	}
	return "quota: spread over the window"
}

// saves reports whether a new write to the task's entry replaces one that was never sent. running is nil if there is
// no attempt.
func (t *task) saves(running *Attempt) bool {
	if running != nil {
		return running.newer != 0
	}
	return t.first != 0 && t.untried()
}
