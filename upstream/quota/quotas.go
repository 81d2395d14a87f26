package quota

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/hashtable"
)

// Limit is what upstream allows a namespace.
type Limit struct {
	Writes int           // requests that write, within each period; 0 is no quota
	Period time.Duration // windows begin at multiples of it since 1970 (UTC)
	// MaxAge is how long a write waits at most for newer ones, to save quota. It waits
	// longer only for its turn, where the quota would not last otherwise.
	MaxAge time.Duration
}

func (q Limit) none() bool { return q.Writes <= 0 || q.Period <= 0 }

// Records keep durably what namespaces have spent: see [Ledger].
type Records interface {
	Spent() []Use
	Record(...Use) error
	Close(exact []Use) error
}

// Options configures quotas.
type Options struct {
	// Of returns a namespace's quota. It is quick, and its answer may change: see Changed.
	Of func(namespace string) Limit
	// Ledger outlives the process; nil if nothing has to.
	Ledger Records
	// Logger receives one line when writes begin to be spread, and one when a quota is used
	// up. It must not be nil.
	Logger *slog.Logger
}

// Quotas holds the budgets of the namespaces. A budget counts the requests that upstream may have
// counted: each PUT and DELETE, except those that were certainly not sent and those that upstream has
// answered with 429.
//
// The count survives the process. Before a request leaves, the ledger has a number that is at least the
// count: it leases several writes at once, so that few requests wait for a sync. After a crash, the
// rest of a lease counts as used. A nil *Quotas allows everything. The methods may be called
// concurrently.
type Quotas struct {
	opts         Options
	spent, saved atomic.Int64
	changed      chan struct{} // has room for one

	mu      sync.Mutex // guards the fields below; nothing else is locked, and nothing logged, with it held
	budgets hashtable.Table[budget, *budget]
	cursor  int                 // of sweep
	short   map[string]struct{} // namespaces that have used more than the ledger knows of

	recording sync.Mutex // held during a record of the ledger
	failing   bool       // the last one failed
}

// budget is one namespace's count in the present window.
type budget struct {
	hashtable.Node[budget]

	quota   Limit
	window  int64 // its number, counted from 1970
	used    int
	flying  int // requests under way
	leased  int // the ledger's number, for this window
	lease   int // how many writes were last leased at once
	reserve int // writes that are left of the reserve
	saved   int // local writes of this window that needed no request

	shutUntil time.Time // a 429 says that nothing is left before; zero if none does

	lastAt  time.Time // of the last request that was not of the reserve
	linger  time.Duration
	pending int

	toldSpread, toldEmpty bool      // the log says so of this window
	emptyAt               time.Time // since when nothing is left; zero if something is, or nobody has looked
}

// New returns the quotas, with what an earlier process has recorded.
func New(opts Options) *Quotas {
	qs := &Quotas{opts: opts, short: make(map[string]struct{}), changed: make(chan struct{}, 1)}
	if opts.Ledger == nil {
		return qs
	}
	for _, sp := range opts.Ledger.Spent() {
		qs.with(sp.Namespace, func(b *budget, _ time.Time) {
			b.used, b.saved = sp.Used, sp.Saved
			if sp.Reserve >= 0 {
				b.reserve = min(b.reserve, sp.Reserve) // guard 18.25
			}
			if sp.Ends.Equal(b.ends().Truncate(time.Millisecond)) {
				b.leased = sp.Used
			}
		})
	}
	return qs
}

// Changed makes the flusher use the new quotas at once. Without it, that may take up to a minute.
// Changed does not wait.
func (qs *Quotas) Changed() {
	select {
	case qs.changed <- struct{}{}:
	default: // the flusher has not yet looked at the last change
	}
}

// Changes has something after each call of Changed.
func (qs *Quotas) Changes() <-chan struct{} { return qs.changed }

// Close records the exact counts.
func (qs *Quotas) Close() error {
	if qs.opts.Ledger == nil {
		return nil
	}
	var exact []Use
	qs.each(func(b *budget, now time.Time) {
		if b.roll(now); b.used > 0 || b.saved > 0 {
			exact = append(exact, b.spending(b.used))
		}
	})
	return qs.opts.Ledger.Close(exact)
}

// sweepSome is how many budgets are looked at whenever one is added, to forget those of
// windows that have ended.
const sweepSome = 2

// with calls do with a namespace's budget, up to date, and with mu held. If the namespace has
// no quota, it calls nothing and takes no lock.
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
	now := time.Now() // with mu held: an earlier time than the last one would begin a window twice
	b := qs.budgets.Get(namespace)
	if b == nil {
		qs.sweep(now)
		b = &budget{quota: quota}
		b.window = b.number(now)
		b.begin()
		qs.budgets.Insert(namespace, b)
	}
	b.update(quota, now)
	do(b, now)
}

// sweep forgets some budgets about which there is nothing to remember.
func (qs *Quotas) sweep(now time.Time) {
	var idle []string
	next, done := qs.budgets.Walk(qs.cursor, sweepSome, func(b *budget) {
		b.roll(now)
		if b.used == 0 && b.saved == 0 && b.pending == 0 && b.flying == 0 && b.shutUntil.IsZero() || qs.opts.Of(b.Key()).none() {
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

// begin begins a window. Upstream may count in it the requests that are under way.
func (b *budget) begin() {
	b.used, b.leased, b.saved, b.reserve = b.flying, 0, 0, reserveOf(b.quota.Writes)
	b.toldSpread, b.toldEmpty = false, false
	b.lastAt, b.emptyAt = time.Time{}, time.Time{}
}

// update puts a quota in force, which may be another one, and the present window. Requests that
// the namespace has made in this window count for the new quota.
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

// roll begins the next window when its time has come. When the clock was set back, the count
// goes on.
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

// isShut reports whether upstream has said that nothing is left. roll ends that in time.
func (b *budget) isShut() bool { return !b.shutUntil.IsZero() }

func (b *budget) left() int {
	if b.isShut() {
		return 0
	}
	return max(0, b.quota.Writes-b.used)
}

func (b *budget) terms(linger time.Duration, now time.Time) Terms {
	// The wall clock says which window it is, and the time from there is the monotonic one.
	s := supply{
		quota: b.quota, left: b.left(), linger: linger,
		timeLeft: max(1, b.ends().Sub(now)), sinceLast: b.quota.Period,
	}
	s.reserve = min(b.reserve, s.left)
	if !b.lastAt.IsZero() {
		s.sinceLast = now.Sub(b.lastAt)
	}
	t := termsOf(s)
	if b.isShut() { // perhaps not to the end of the window, or beyond it
		wait := max(0, b.shutUntil.Sub(now))
		t.Ordinary, t.Prompt, t.Demanded, t.Ends = wait, wait, wait, max(wait, t.Ends)
	}
	return t
}

func (b *budget) spending(used int) Use {
	return Use{Namespace: b.Key(), Ends: b.ends(), Used: used, Saved: b.saved, Reserve: b.reserve}
}

// Kind says how urgently a write is to go.
type Kind uint8

const (
	// Ordinary writes go when their time has come.
	Ordinary Kind = iota
	// Prompt writes are deletes, and writes for which a caller waits.
	Prompt
	// Demanded writes are those that a flush or a drain sends.
	Demanded
)

// Terms returns the present terms of a namespace that has so many entries pending.
func (qs *Quotas) Terms(namespace string, linger time.Duration, pending int) (t Terms) {
	qs.with(namespace, func(b *budget, now time.Time) {
		b.linger, b.pending = linger, pending
		t = b.terms(linger, now)
	})
	return t
}

// Spend counts a request that is about to be made.
func (qs *Quotas) Spend(namespace string, k Kind) (spent bool) {
	qs.with(namespace, func(b *budget, now time.Time) {
		if k != Ordinary && b.reserve > 0 && b.terms(b.linger, now).Spread {
			b.reserve--
		} else {
			b.lastAt = now
		}
		b.used++
		b.flying++
		qs.spent.Add(1)
		spent = true
	})
	return spent
}

// Landed notes that a request that was counted is over.
func (qs *Quotas) Landed(namespace string) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if b := qs.budgets.Get(namespace); b != nil {
		b.roll(time.Now())
		b.flying = max(0, b.flying-1)
	}
}

// GiveBack takes back the count of a request that upstream has not counted.
func (qs *Quotas) GiveBack(namespace string) {
	qs.with(namespace, func(b *budget, _ time.Time) { b.used = max(0, b.used-1) })
	qs.spent.Add(-1)
}

// Save counts a local write that needs no request, as a newer one takes its place.
func (qs *Quotas) Save(namespace string) {
	qs.with(namespace, func(b *budget, _ time.Time) {
		b.saved++
		qs.saved.Add(1)
	})
}

// Throttled notes that upstream has answered a write with 429: others use the quota too, or
// upstream counts otherwise, and nothing is left for some time. After that, the count goes on
// as before: upstream alone knows what others leave.
func (qs *Quotas) Throttled(namespace string, wait time.Duration) {
	qs.with(namespace, func(b *budget, now time.Time) {
		if until := now.Add(wait); until.After(b.shutUntil) { // guard 18.24
			b.shutUntil = until
		}
	})
}

// Lift ends what a 429 has shut: a person knows better.
func (qs *Quotas) Lift(namespace string) {
	qs.with(namespace, func(b *budget, _ time.Time) { b.shutUntil = time.Time{} })
}
