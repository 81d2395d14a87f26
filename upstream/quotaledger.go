package upstream

import "time"

// A lease is how many writes the ledger counts ahead. It doubles from one, so that a daemon
// which crashes again and again leaves little unused, to leaseShare of the quota at most: a
// crash costs no more.
const leaseShare = 50

// cover makes the count of a namespace durable before a request leaves. Where the ledger
// fails, the count is in memory only, and upstream's own count is the bound.
func (qs *Quotas) cover(namespace string) {
	if qs == nil || qs.opts.Of(namespace).none() {
		return
	}
	spread, empty := qs.tell(namespace)
	if spread {
		qs.opts.Logger.Info("a namespace spreads its writes, so that its quota lasts", "namespace", namespace)
	}
	if empty {
		qs.opts.Logger.Warn("a namespace has used up its quota: its writes wait for the next window", "namespace", namespace)
	}
	if qs.opts.Ledger == nil {
		return
	}
	qs.recording.Lock()
	defer qs.recording.Unlock()
	qs.mu.Lock()
	b := qs.at(namespace, time.Now())
	if b == nil || b.used <= b.leased {
		qs.mu.Unlock()
		return
	}
	b.lease = min(max(1, 2*b.lease), max(1, b.quota.Writes/leaseShare))
	sp := b.spending(max(b.used, min(b.used+b.lease-1, b.quota.Writes)))
	window := b.window
	qs.mu.Unlock()
	err := qs.opts.Ledger.Record(sp)
	if err != nil && !qs.failing {
		qs.opts.Logger.Warn("the quota's count could not be written to the disk: a restart forgets part of it", "error", err)
	}
	if qs.failing = err != nil; qs.failing {
		return
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if b.window == window {
		b.leased = max(b.leased, sp.Used)
	}
}

// tell reports what the log has not said of this window yet.
func (qs *Quotas) tell(namespace string) (spread, empty bool) {
	now := time.Now()
	qs.mu.Lock()
	defer qs.mu.Unlock()
	b := qs.at(namespace, now)
	if b == nil {
		return false, false
	}
	spread = !b.toldSpread && b.terms(b.linger, now).spread
	empty = !b.toldEmpty && !b.shut && b.left() == 0
	b.toldSpread, b.toldEmpty = b.toldSpread || spread, b.toldEmpty || empty
	return spread, empty
}

// QuotaReport is a namespace's budget in the present window.
type QuotaReport struct {
	Limit, Used, Left int
	Saved             int // writes that needed no request, as a newer one took their place
	ResetsAt          time.Time
	Linger            time.Duration // about how long a write waits now
}

// Reports returns the budgets, by namespace, of those that have spent, saved or pending writes
// in this window.
func (qs *Quotas) Reports() map[string]QuotaReport {
	reports, now := make(map[string]QuotaReport), time.Now()
	qs.each(func(b *budget) {
		quota := qs.opts.Of(b.Key())
		if quota.none() {
			return
		}
		if b.update(quota, now); b.used == 0 && b.saved == 0 && b.pending == 0 {
			return
		}
		t := b.terms(b.linger, now)
		turns := min(t.ends, t.gap*time.Duration(b.pending))
		reports[b.Key()] = QuotaReport{
			Limit: b.limit(), Used: b.used, Left: b.left(), Saved: b.saved, ResetsAt: now.Add(t.ends),
			Linger: max(t.linger, turns),
		}
	})
	return reports
}

// Short counts the namespaces that spread their writes, and of them those that have used up
// their quota.
func (qs *Quotas) Short() (spread, usedUp int) {
	now := time.Now()
	qs.each(func(b *budget) {
		if b.roll(now); qs.opts.Of(b.Key()).none() || !b.terms(b.linger, now).spread {
			return
		}
		if spread++; b.left() == 0 {
			usedUp++
		}
	})
	return spread, usedUp
}

// Spent is how many requests were counted since the start.
func (qs *Quotas) Spent() int64 { return qs.spent.Load() }

// Saved is how many writes needed no request since the start.
func (qs *Quotas) Saved() int64 { return qs.saved.Load() }

// eachChunk is how many budgets are visited under one hold of the lock.
const eachChunk = 128

// each visits all budgets, each at least once.
func (qs *Quotas) each(visit func(*budget)) {
	for cursor, done := 0, false; !done; {
		qs.mu.Lock()
		cursor, done = qs.budgets.Walk(cursor, eachChunk, visit)
		qs.mu.Unlock()
	}
}
