package upstream

import (
	"context"
	"time"

	"github.com/botwired/botwired/journal"
)

// claim begins an attempt at an entry's pending write for a person, beside the schedule: with
// no linger, no backoff, and whatever its namespace waits for. While a request of the entry is
// under way, claim waits for its end (contract 12). The errors are [journal.ErrNotPending] and
// ctx's.
func claim(ctx context.Context, f *Flusher, id journal.ID) (*attempt, error) {
	if err := f.rebuilt(ctx); err != nil {
		return nil, err
	}
	for {
		a, busy := tryClaim(f, id)
		switch {
		case a != nil:
			return a, nil
		case busy == nil:
			return nil, journal.ErrNotPending
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryClaim returns the attempt, or a channel that is closed when a request of the entry that
// is under way is over, or neither if nothing is pending.
func tryClaim(f *Flusher, id journal.ID) (a *attempt, busy <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.schedule
	q, t := s.find(id)
	if t == nil || t.first == 0 {
		return nil, nil
	}
	if t.running {
		under := s.running[t]
		if under.ended == nil {
			under.ended = make(chan struct{})
		}
		return nil, under.ended
	}
	a = &attempt{
		f: f, queue: q, task: t, newest: t.seq, startedAt: f.now(), byHand: true, trial: q.blocked, ended: make(chan struct{}),
	}
	q.leave(t)
	beginAttempt(s, a)
	return a, nil
}

// Send sends an entry's pending write now, once: ahead of the linger and the pace of the quota,
// and also while the namespace is throttled or paused, or upstream is believed down. It
// sends nothing that is in doubt, and nothing beyond the quota. It returns when the attempt is
// over, or ctx ends; a write that has neither settled nor become a dead letter is still pending
// then. The end of ctx does not take the attempt back: Run makes it.
//
// Errors: [journal.ErrNotPending], ctx's, and those of a failed journal.
func (f *Flusher) Send(ctx context.Context, id journal.ID) (seq uint64, settled, dead bool, err error) {
	f.opts.Quotas.lift(id.Namespace)
	a, err := claim(ctx, f, id)
	if err != nil {
		return 0, false, false, err
	}
	seq = a.newest
	f.mu.Lock()
	wait := f.callers.entry(id, seq)
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.callers.leaveEntry(wait)
	}()
	a.task.urgent = true
	if !mayGo(a) {
		resume(a)
		f.mu.Unlock()
		f.signal()
		return seq, false, false, nil
	}
	_, a.probe, _ = f.health.admit(time.Now())
	a.charge = charged(a, f.opts.Quotas, f.now())
	f.byHand = append(f.byHand, a)
	f.mu.Unlock()
	f.signal()
	select {
	case <-a.ended:
	case <-ctx.Done():
		return seq, false, false, nil
	}
	f.mu.Lock() // which the attempt's end holds until the callers know
	defer f.mu.Unlock()
	select {
	case <-wait.done:
		return seq, wait.settled, !wait.settled, nil
	default:
		return seq, false, false, nil
	}
}

// mayGo reports whether a claimed write may be sent if a person wants it. The caller holds mu.
func mayGo(a *attempt) bool {
	q, r, now := a.queue, a.task.retry, a.f.now()
	q.renew(a.f.opts.Quotas, now)
	inDoubt := r != nil && r.waiting == doubting && r.at > now
	return !inDoubt && (!q.pace.limited || q.pace.demandedAt <= now)
}

// Drop makes an entry's pending write a dead letter, of the sequence number if that is not 0.
// While a request of the entry is under way, Drop waits for its end or ctx's.
//
// Errors: [journal.ErrNotPending], ctx's, and those of a failed journal.
func (f *Flusher) Drop(ctx context.Context, id journal.ID, seq uint64) (dropped journal.Write, err error) {
	a, err := claim(ctx, f, id)
	if err != nil {
		return journal.Write{}, err
	}
	defer f.signal()
	w, ok, err := f.opts.Journal.Newest(id)
	if err == nil && (!ok || seq != 0 && w.Seq != seq) {
		err = journal.ErrNotPending
	}
	if err == nil {
		err = f.opts.Journal.DeadLetter(w, journal.Failure{
			Kind: journal.Dropped, Reason: "dropped by hand", InDoubt: a.task.mayHaveLanded(), MayLand: a.task.doubt() != nil,
		})
	}
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		resume(a)
		return journal.Write{}, err
	}
	if superseded, err := a.superseded(w); err != nil {
		return journal.Write{}, err
	} else if superseded {
		return journal.Write{}, journal.ErrNotPending // a newer write has taken its place
	}
	f.opts.Logger.Warn("a pending write was dropped by hand: it is a dead letter now",
		"namespace", w.Namespace, "key", w.Key, "seq", w.Seq)
	a.finish(w.Seq, true)
	return w, nil
}
