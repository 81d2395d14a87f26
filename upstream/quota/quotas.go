package quota

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/hashtable"
)

// Limit is the quota that upstream gives a namespace.
type Limit struct {
	Writes int           // write requests per period; 0: no quota
	Period time.Duration // windows begin at multiples of the period since 1970 (UTC)
	// MaxAge is how long a write waits at most for newer ones, to save quota. A write waits longer only
	// for its turn, if the quota would not last otherwise.
	MaxAge time.Duration
}

func (q Limit) none() bool { return q.Writes <= 0 || q.Period <= 0 }

// Records keeps the use of quotas durably: see [Ledger].
type Records interface {
	Spent() []Use
	Record(...Use) error
	Close(exact []Use) error
}

// Options configures quotas.
type Options struct {
	// Of returns a namespace's quota. It must be quick, and its answer may change: see Changed.
	Of func(namespace string) Limit
	// Ledger keeps the counts over restarts; nil: they are lost.
	Ledger Records
	// Logger receives one line when writes begin to be spread, and one when a quota is used up. It must
	// not be nil.
	Logger *slog.Logger
}

// Quotas holds the budgets of the namespaces. A budget counts the requests that upstream may have
// counted: each PUT and DELETE, except requests that were certainly not sent and requests that upstream
// answered with 429.
//
// The count survives the process. Before a request is sent, the ledger holds a number that is at least
// the count. Quotas leases several writes at once, so that few requests wait for a sync. After a crash,
// the rest of a lease counts as used. A nil *Quotas allows everything. The methods may be called
// concurrently.
type Quotas struct {
	opts         Options
	spent, saved atomic.Int64
	changed      chan struct{} // holds one element

	mu      sync.Mutex // guards the fields below; while held, no other lock is taken and nothing is logged
	budgets hashtable.Table[budget, *budget]
	cursor  int                 // for sweep
	past    map[string]Use      // an earlier process's, of namespaces that have had no quota since
	short   map[string]struct{} // namespaces that have used more than the ledger knows

	recording sync.Mutex // held during a record of the ledger
	failing   bool       // the last record failed
}

// budget counts one namespace's use in the present window.
type budget struct {
	hashtable.Node[budget]

	quota    Limit
	window   int64 // its number since 1970
	used     int
	inFlight int // requests in flight
	leased   int // the ledger's number for this window
	lease    int // size of the last lease
	reserve  int // writes left of the reserve

	shutUntil time.Time // a 429 says that nothing is left until then; zero: no 429

	lastAt  time.Time // of the last request not charged to the reserve
	linger  time.Duration
	pending int

	toldSpread, toldEmpty bool      // logged for this window
	emptyAt               time.Time // when nothing was left any more; zero if something is left, or this was not checked
}

// New returns the quotas, with the records of an earlier process.
func New(opts Options) *Quotas {
	qs := &Quotas{opts: opts, past: make(map[string]Use), short: make(map[string]struct{}), changed: make(chan struct{}, 1)}
	if opts.Ledger == nil {
		return qs
	}
	for _, use := range opts.Ledger.Spent() {
		qs.past[use.Namespace] = use
		qs.with(use.Namespace, func(*budget, time.Time) {})
	}
	return qs
}

// Changed makes the flusher use the new quotas at once; without it, that may take up to a minute.
// Changed does not block.
func (qs *Quotas) Changed() {
	select {
	case qs.changed <- struct{}{}:
	default: // the flusher has not seen the last change yet
	}
}

// Changes returns the channel that receives after calls of Changed.
func (qs *Quotas) Changes() <-chan struct{} { return qs.changed }

// Close records the exact counts.
func (qs *Quotas) Close() error {
	if qs.opts.Ledger == nil {
		return nil
	}
	var exact []Use
	qs.each(func(b *budget, now time.Time) {
		if b.roll(now); b.used > 0 {
			exact = append(exact, b.spending(b.used))
		}
	})
	return qs.opts.Ledger.Close(exact)
}

// sweepSome is how many budgets sweep checks whenever one is added.
const sweepSome = 2

// with updates a namespace's budget, and calls do with it while holding mu. If the namespace has no
// quota, with calls nothing and takes no lock.
func (qs *Quotas) with(namespace string, do func(b *budget, now time.Time)) {
	if qs == nil {
		return
	}
	quota := qs.opts.Of(namespace)
	if quota.none() {
		return
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	now := time.Now() // with mu held: a time before the last one would begin a window twice
	b := qs.budgets.Get(namespace)
	if b == nil {
		qs.sweep(now)
		b = &budget{quota: quota}
		b.window = b.number(now)
		b.begin()
		if use, ok := qs.past[namespace]; ok && use.Ends.After(now) { // guard 18.31
			b.resume(use)
		}
		delete(qs.past, namespace)
		qs.budgets.Insert(namespace, b)
	}
	b.update(quota, now)
	do(b, now)
}

// sweep deletes some budgets that hold nothing worth keeping.
func (qs *Quotas) sweep(now time.Time) {
	var idle []string
	next, done := qs.budgets.Walk(qs.cursor, sweepSome, func(b *budget) {
		b.roll(now)
		// guard 18.30
		if b.used == 0 && b.inFlight == 0 && b.shutUntil.IsZero() && (b.pending == 0 || qs.opts.Of(b.Key()).none()) {
			idle = append(idle, b.Key())
		}
	})
	if qs.cursor = next; done {
		qs.cursor = 0
	}
	for _, namespace := range idle {
		qs.budgets.Delete(namespace)
	}
}

// number returns the number of the window that a time is in.
func (b *budget) number(at time.Time) int64 { return at.UnixNano() / int64(b.quota.Period) }

// ends returns when the window ends.
func (b *budget) ends() time.Time { return time.Unix(0, (b.window+1)*int64(b.quota.Period)) }

// begin begins a window. Requests in flight count in it: upstream may count them there.
func (b *budget) begin() {
	b.used, b.leased, b.reserve = b.inFlight, 0, reserveOf(b.quota.Writes)
	b.toldSpread, b.toldEmpty = false, false
	b.lastAt, b.emptyAt = time.Time{}, time.Time{}
}

// resume goes on with what an earlier process has used in a window that has not ended.
func (b *budget) resume(use Use) {
	b.used = use.Used
	b.reserve = min(b.reserve, use.Reserve) // guard 18.25
	if use.Ends.Equal(b.ends().Truncate(time.Millisecond)) {
		b.leased = use.Used
	}
}

// update applies a quota, which may be a new one, and the present window. Requests that the namespace
// has made in this window count against the new quota.
func (b *budget) update(quota Limit, now time.Time) {
	was := b.quota
	b.quota = quota
	if quota.Writes != was.Writes {
		b.reserve, b.toldSpread, b.toldEmpty = reserveOf(quota.Writes), false, false
	}
	if quota.Period != was.Period {
		b.window, b.leased = b.number(now), 0
	}
	b.roll(now)
}

// roll begins the next window when its time has come, and ends the effect of a 429 when its time is
// over. If the clock was set back, the count continues.
func (b *budget) roll(now time.Time) {
	switch n := b.number(now); {
	case n > b.window:
		b.window = n
		b.begin()
	case n < b.window:
		b.window, b.leased = n, 0
	}
	if !now.Before(b.shutUntil) {
		b.shutUntil = time.Time{}
	}
}

// isShut reports whether a 429 says that nothing is left, until roll ends its effect.
func (b *budget) isShut() bool { return !b.shutUntil.IsZero() }

func (b *budget) left() int {
	if b.isShut() {
		return 0
	}
	return max(0, b.quota.Writes-b.used)
}

func (b *budget) terms(linger time.Duration, now time.Time) Terms {
	// The wall clock determines the window; time differences use the monotonic clock.
	s := supply{
		quota: b.quota, left: b.left(), linger: linger,
		timeLeft: max(1, b.ends().Sub(now)), sinceLast: b.quota.Period,
	}
	s.reserve = min(b.reserve, s.left)
	if !b.lastAt.IsZero() {
		s.sinceLast = now.Sub(b.lastAt)
	}
	t := termsOf(s)
	if b.isShut() { // the end may be before or after the window's
		wait := max(0, b.shutUntil.Sub(now))
		t.Ordinary, t.Prompt, t.Demanded, t.Ends = wait, wait, wait, max(wait, t.Ends)
	}
	return t
}

func (b *budget) spending(used int) Use {
	return Use{Namespace: b.Key(), Ends: b.ends(), Used: used, Reserve: b.reserve}
}

// Kind says how urgent a write is.
type Kind uint8

const (
	// Ordinary writes are sent when their time has come.
	Ordinary Kind = iota
	// Prompt writes are deletes, and writes that a caller waits for.
	Prompt
	// Demanded writes are sent by a flush or a drain.
	Demanded
)

// Terms returns the present terms of a namespace, given its linger and number of pending entries.
// Without a quota, they are zero.
func (qs *Quotas) Terms(namespace string, linger time.Duration, pending int) (t Terms) {
	qs.with(namespace, func(b *budget, now time.Time) {
		b.linger, b.pending = linger, pending
		t = b.terms(linger, now)
	})
	return t
}

// Spend counts a request that is about to be made. It returns false if the namespace has no quota;
// otherwise the caller calls Ended when the request has ended.
func (qs *Quotas) Spend(namespace string, k Kind) (spent bool) {
	qs.with(namespace, func(b *budget, now time.Time) {
		if k != Ordinary && b.reserve > 0 && b.terms(b.linger, now).Spread {
			b.reserve--
		} else {
			b.lastAt = now
		}
		b.used++
		b.inFlight++
		qs.spent.Add(1)
		spent = true
	})
	return spent
}

// Ended records that a counted request has ended.
func (qs *Quotas) Ended(namespace string) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if b := qs.budgets.Get(namespace); b != nil {
		b.roll(time.Now())
		b.inFlight = max(0, b.inFlight-1)
	}
}

// GiveBack takes back the count of a request that upstream has not counted.
func (qs *Quotas) GiveBack(namespace string) {
	qs.with(namespace, func(b *budget, _ time.Time) { b.used = max(0, b.used-1) })
	qs.spent.Add(-1)
}

// Save counts a local write that needs no request, because a newer one replaces it.
func (qs *Quotas) Save(namespace string) {
	if qs != nil && !qs.opts.Of(namespace).none() {
		qs.saved.Add(1)
	}
}

// Throttled records that upstream has answered a write with 429: others use the quota, too, or upstream
// counts differently, and nothing is left for some time. After that the count continues as before: only
// upstream knows what others leave.
func (qs *Quotas) Throttled(namespace string, wait time.Duration) {
	qs.with(namespace, func(b *budget, now time.Time) {
		if until := now.Add(wait); until.After(b.shutUntil) { // guard 18.24
			b.shutUntil = until
		}
	})
}

// Lift ends the effect of a 429: a person has decided so.
func (qs *Quotas) Lift(namespace string) {
	qs.with(namespace, func(b *budget, _ time.Time) { b.shutUntil = time.Time{} })
}
