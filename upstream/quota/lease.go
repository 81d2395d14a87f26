package quota

import (
	"maps"
	"slices"
	"time"
)

// A lease is how many writes the ledger counts ahead. Leases double from one, so that a daemon that
// keeps crashing wastes little, up to 1/leaseShare of the quota: a crash costs no more than that.
const leaseShare = 50

// Cover makes the count of a namespace durable before a request is sent. If the ledger fails, or there
// is none, the count is in memory only.
func (qs *Quotas) Cover(namespace string) {
	spread, empty, short := qs.tell(namespace)
	if spread {
		qs.opts.Logger.Info("a namespace spreads its writes, so that its quota lasts", "namespace", namespace)
	}
	if empty {
		qs.opts.Logger.Warn("a namespace has used up its quota: its writes wait for the next window", "namespace", namespace)
	}
	if !short {
		return
	}
	qs.recording.Lock()
	defer qs.recording.Unlock()
	if qs.isShort(namespace) { // a record for another request may have covered this one, too
		qs.record()
	}
}

// isShort reports [budget.isShort] of a namespace; false if it has no quota.
func (qs *Quotas) isShort(namespace string) (short bool) {
	qs.with(namespace, func(b *budget, _ time.Time) { short = b.isShort(qs.short) })
	return short
}

// isShort reports whether more is used than the ledger knows. If so, it adds the namespace to of.
func (b *budget) isShort(of map[string]struct{}) bool {
	if b.used <= b.leased {
		return false
	}
	of[b.Key()] = struct{}{}
	return true
}

// record leases for all namespaces that are short: their requests wait for one sync. The caller holds
// recording.
func (qs *Quotas) record() {
	qs.mu.Lock()
	short := slices.Collect(maps.Keys(qs.short))
	clear(qs.short)
	qs.mu.Unlock()
	var leases []Use
	for _, namespace := range short {
		qs.with(namespace, func(b *budget, _ time.Time) {
			if b.used > b.leased {
				leases = append(leases, b.leaseMore())
			}
		})
	}
	err := qs.opts.Ledger.Record(leases...)
	if err != nil && !qs.failing {
		qs.opts.Logger.Warn("the quota's count could not be written to the disk: a restart forgets part of it", "error", err)
	}
	if qs.failing = err != nil; qs.failing {
		return
	}
	for _, sp := range leases {
		qs.with(sp.Namespace, func(b *budget, _ time.Time) {
			if sp.Ends.Equal(b.ends()) {
				b.leased = max(b.leased, sp.Used)
			}
		})
	}
}

func (b *budget) leaseMore() Use {
	b.lease = min(max(1, 2*b.lease), max(1, b.quota.Writes/leaseShare))
	return b.spending(max(b.used, min(b.used+b.lease-1, b.quota.Writes)))
}

// tell reports whether to log that the writes are spread, or that the quota is used up, and whether the
// ledger's number is below the count.
func (qs *Quotas) tell(namespace string) (spread, empty, short bool) {
	qs.with(namespace, func(b *budget, now time.Time) {
		spread = !b.toldSpread && b.terms(b.linger, now).Spread
		empty = !b.toldEmpty && !b.isShut() && b.left() == 0
		b.toldSpread, b.toldEmpty = b.toldSpread || spread, b.toldEmpty || empty
		b.noteEmpty(now)
		short = qs.opts.Ledger != nil && b.isShort(qs.short)
	})
	return spread, empty, short
}

// Report describes a namespace's budget in the present window.
type Report struct {
	Limit, Used, Left int
	ResetsAt          time.Time
	Linger            time.Duration // about how long a write waits now
	// RunsOutAt is the time when the quota runs out at the present pace, or when it was used up. It is
	// zero if the quota lasts, if nothing is used, or if too little of the window has passed to tell.
	RunsOutAt time.Time
}

// One in paceShown of a window has to pass before the pace means something: a few writes right after
// the window's beginning are no pace.
const paceShown = 100

// runsOut returns when the quota runs out at the present pace: see [Report.RunsOutAt].
func (b *budget) runsOut(now time.Time) time.Time {
	if b.noteEmpty(now); !b.emptyAt.IsZero() {
		return b.emptyAt
	}
	begun := b.ends().Add(-b.quota.Period)
	passed := now.Sub(begun)
	if b.used == 0 || passed < b.quota.Period/paceShown {
		return time.Time{}
	}
	lasts := float64(passed) * float64(b.left()) / float64(b.used)
	if lasts >= float64(b.ends().Sub(now)) {
		return time.Time{}
	}
	return now.Add(time.Duration(lasts))
}

// noteEmpty records when nothing was left any more.
func (b *budget) noteEmpty(now time.Time) {
	switch {
	case b.left() > 0:
		b.emptyAt = time.Time{}
	case b.emptyAt.IsZero():
		b.emptyAt = now
	}
}

// Reports returns, by namespace, the budgets that have spent or pending writes in this window.
func (qs *Quotas) Reports() map[string]Report {
	reports := make(map[string]Report)
	qs.each(func(b *budget, now time.Time) {
		quota := qs.opts.Of(b.Key())
		if quota.none() {
			return
		}
		if b.update(quota, now); b.used == 0 && b.pending == 0 {
			return
		}
		t := b.terms(b.linger, now)
		linger := max(t.Linger, time.Duration(min(float64(t.Ends), float64(t.Gap)*float64(b.pending)))) // may exceed a Duration
		if b.left() == 0 {
			linger = min(t.Ordinary, t.Ends)
		}
		reports[b.Key()] = Report{
			Limit: quota.Writes, Used: b.used, Left: b.left(), ResetsAt: now.Add(t.Ends),
			Linger: linger, RunsOutAt: b.runsOut(now),
		}
	})
	return reports
}

// Spread counts the namespaces that spread their writes.
func (qs *Quotas) Spread() (n int) {
	qs.each(func(b *budget, now time.Time) {
		if b.roll(now); !qs.opts.Of(b.Key()).none() && b.terms(b.linger, now).Spread {
			n++
		}
	})
	return n
}

// Spent returns how many requests were counted since the start.
func (qs *Quotas) Spent() int64 { return qs.spent.Load() }

// Saved returns how many writes needed no request since the start.
func (qs *Quotas) Saved() int64 { return qs.saved.Load() }

// eachChunk is how many budgets are visited under one hold of the lock.
const eachChunk = 128

// each visits every budget at least once.
func (qs *Quotas) each(visit func(b *budget, now time.Time)) {
	for cursor, done := 0, false; !done; {
		qs.mu.Lock()
		now := time.Now()
		cursor, done = qs.budgets.Walk(cursor, eachChunk, func(b *budget) { visit(b, now) })
		qs.mu.Unlock()
	}
}
