package flush

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/internal/loggingmutex"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/limit"
	"github.com/botwired/botwired/upstream/quota"
	"github.com/botwired/botwired/upstream/schedule"
)

// Journal has the methods of the journal that the flusher calls. See [journal.Journal].
type Journal interface {
	Rebuilt() <-chan struct{}
	Newest(journal.ID) (w journal.Write, ok bool, err error)
	MaySend() error
	BeginSending() error
	EndSending() error
	LastSending() (ago time.Duration, ok bool, err error)
	MarkSent(journal.Write) (before bool, err error)
	UnmarkSent(journal.Write) error
	Left(journal.Write) (left []journal.Content, known bool, err error)
	Settle(journal.Write) error
	DeadLetter(journal.Write, journal.Failure) error
	IsDead(id journal.ID, seq uint64) (state journal.ReceiptState, dead bool, err error)
}

// Options configures a flusher.
type Options struct {
	Journal Journal
	Engine  upstream.Engine
	// Host names this host in its writes if the engine stores such names: see [upstream.Writer].
	Host string
	// Health learns how requests end, and allows only probes while upstream is down.
	Health *upstream.Health
	// Linger returns how long a write to a namespace waits for a newer one to its entry.
	Linger func(namespace string) time.Duration
	// FenceJournal compares the writes with what upstream holds before they are sent (contract 17). If it is
	// nil, nothing is compared.
	FenceJournal *journal.Fence
	// OnFence, if not nil, is called when a fence has ended. It gets the outcome as the metrics name
	// it, and the number of requests.
	OnFence func(outcome string, requests int)
	// Quotas are the budgets of the namespaces; nil: none.
	Quotas *quota.Quotas
	// Slots limit the requests in flight.
	Slots *limit.Slots
	// LateWindow is how long upstream may still carry out an unanswered request; an exact engine has none.
	LateWindow time.Duration
	// Timeout bounds a request.
	Timeout time.Duration
	// BackoffInitial and BackoffMax bound the wait between attempts.
	BackoffInitial, BackoffMax time.Duration
	// OnSend, if not nil, is called right before the request of a pending write is sent, with the
	// flusher's lock held. It must be quick, and must not call the flusher or the journal. It is not
	// called for a write that a newer one has superseded.
	OnSend func(journal.Write)
	// OnOutcome, if not nil, is called with the verdict on every write request.
	OnOutcome func(journal.Op, upstream.Verdict)
	// OnSettled, if not nil, is called with every write that has settled and that upstream still held
	// when last asked. It is called before the callers that wait for the write are released.
	OnSettled func(journal.Write)
	// Logger receives dead letters, and a line when writes begin to wait. It must not be nil.
	Logger *slog.Logger
}

// Flusher carries pending writes upstream. The package's doc describes its rules. Its methods may be
// called concurrently.
type Flusher struct {
	clock
	opts   Options
	exact  bool             // the engine is exact
	window schedule.Instant // how long an unanswered request may still land
	fences *fences
	steps  *steps
	health *upstream.Circuit
	wake   chan struct{} // holds one token: something may have become due

	// mu guards the fields below. A running task belongs to its attempt, which may read it without the
	// lock, except the fields that a new write or a caller changes: seq, first, writtenAt, waited and
	// urgent. Others may read the fields that the attempt writes.
	//
	// Writers wait for this lock: the journal announces writes with its own lock held. So it is held
	// for a few steps only, however many entries are pending; TryNow is the exception. While it is
	// held, the journal is never called and nothing is logged.
	mu       loggingmutex.Mutex
	schedule *schedule.Schedule
	callers  *callers
	drain    *drain     // nil until a drain begins
	diskFull bool       // the last attempt found the disk full
	refusals refusalsOf // by namespace
}

// New returns a flusher. It does nothing before Run. Subscribe Changed to the journal before the
// journal rebuilds its index.
func New(opts Options) *Flusher {
	f := &Flusher{
		opts:    opts,
		exact:   opts.Engine.Exact(),
		clock:   clock{epoch: time.Now()},
		steps:   newSteps(),
		health:  opts.Health.Writes(),
		wake:    make(chan struct{}, 1),
		mu:      loggingmutex.Mutex{Logger: opts.Logger},
		callers: &callers{make(map[string][]*flushWait), make(map[journal.ID][]*entryWait)}, refusals: make(refusalsOf),
	}
	f.health.ProbeBy(upstream.NewBackoff(opts.BackoffInitial, min(opts.BackoffMax, probeMax)), f.signal) // guard 14.5
	f.fences = newFences(&f.opts)
	if !f.exact {
		f.window = schedule.Instant(opts.LateWindow)
	}
	sopts := schedule.Options{Concurrency: opts.Slots.Concurrency().Now, Wake: f.signal}
	if opts.Quotas != nil {
		sopts.Terms = opts.Quotas.Terms
	}
	f.schedule = schedule.New(sopts)
	return f
}

// Changed handles a change of the journal, which calls it on every change, with its own lock held: a write is scheduled in
// the order in which it becomes visible.
func (f *Flusher) Changed(c journal.Change) {
	if !c.Written {
		return
	}
	f.steps.wrote(c.Seq)
	linger, now := schedule.Instant(f.opts.Linger(c.Namespace)), f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.schedule.Written(c, linger, now) {
		f.opts.Quotas.Save(c.Namespace)
	}
}

func (f *Flusher) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run flushes until ctx ends or the journal fails. It waits for the requests in flight, which end with
// ctx.
func (f *Flusher) Run(ctx context.Context) error {
	if err := f.recall(); err != nil { // guard 14.10
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.dispatch(ctx, g) })
	if f.opts.Quotas != nil {
		g.Go(func() error { return f.renewPaces(ctx) })
	}
	if err := g.Wait(); err != nil || !f.allAnswered() { // guard 14.19
		return err
	}
	return f.opts.Journal.EndSending()
}

// recall has the flusher send nothing while requests of an earlier process may still land (contract 14).
func (f *Flusher) recall() error {
	if f.window == 0 {
		return nil
	}
	ago, ok, err := f.opts.Journal.LastSending()
	wait := min(f.window, schedule.Instant(f.opts.Timeout-ago)+f.window) // guard 14.24
	if err != nil || !ok || wait <= 0 {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.now() + wait
	f.schedule.SendNothingBefore(at)
	f.mu.Log(slog.LevelInfo, "an earlier process may have left requests that upstream still carries out: writes go upstream after that",
		"until", f.wall(at))
	return nil
}

// allAnswered reports whether upstream can carry out nothing more of what was sent.
func (f *Flusher) allAnswered() bool {
	open, now := 0, f.now()
	f.eachQueue(func(q *schedule.Queue) {
		entries, _ := f.schedule.InWindow(q, now)
		open += entries
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	return open == 0 && !f.schedule.IsQuiet(now) && f.schedule.Running() == 0
}

func (f *Flusher) dispatch(ctx context.Context, g *errgroup.Group) error {
	for ctx.Err() == nil {
		a, at := f.take()
		if a == nil {
			f.sleep(ctx, at)
			continue
		}
		g.Go(func() error { return a.run(ctx) })
	}
	return nil
}

// sleep returns at the given time (0: none), on a signal, or when ctx ends.
func (f *Flusher) sleep(ctx context.Context, at schedule.Instant) {
	var due <-chan time.Time
	if at != 0 {
		timer := time.NewTimer(time.Duration(at - f.now()))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-f.wake:
	case <-due:
	}
}

// take returns an attempt to make now, or the time to ask again; 0 means on the next signal.
func (f *Flusher) take() (*attempt, schedule.Instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, now := f.opts.Slots.Concurrency(), f.now()
	next, again := f.schedule.Next(now, c.Limit, c.Now, func() (ok, probe bool, again schedule.Instant) {
		ok, probe, at := f.health.Admit(time.Now())
		return ok, probe, f.instant(at)
	})
	if next == nil {
		f.judgeDrain(again)
		return nil, again
	}
	a := &attempt{Attempt: next, f: f}
	if a.Counts {
		a.charged = f.opts.Quotas.Spend(a.Namespace(), a.Kind)
		a.inFlight = a.charged
		f.schedule.Renew(a.Queue(), now)
	}
	return a, 0
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
		f.eachQueue(func(q *schedule.Queue) { f.schedule.Renew(q, f.now()) })
		f.signal()
	}
}

// Attempts returns how many requests for an entry's pending write failed since the last success, and
// why the last one failed. It also returns the earliest time of the next: zero while a request is in
// flight, and otherwise neither in the past nor before the time that EntryWaits returns. If nothing is
// pending, all results are zero.
func (f *Flusher) Attempts(id journal.ID) (count int, last string, next time.Time) {
	v := f.health.State()
	f.mu.Lock()
	defer f.mu.Unlock()
	count, last, at := f.schedule.Attempts(id, f.now(), v)
	return count, last, f.wall(at)
}

// Saved returns how many writes since the start needed no request, because a newer write to their entry
// came before they were sent.
func (f *Flusher) Saved() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.schedule.Saved()
}

// Paused returns why upstream does not let a namespace's pending writes in; empty if it does.
func (f *Flusher) Paused(namespace string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.schedule.Queue(namespace); q != nil {
		return q.Paused()
	}
	return ""
}

// Full returns why upstream takes no puts of a namespace: it has no room for more. It is empty if upstream takes them.
func (f *Flusher) Full(namespace string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.schedule.Queue(namespace); q != nil {
		return q.Full()
	}
	return ""
}

// Waits returns why nothing of a namespace's pending writes is sent now, and until when. The time is
// zero if no time ends the wait. why is empty if the namespace does not wait, or only for flush.linger.
func (f *Flusher) Waits(namespace string) (why string, until time.Time) {
	v := f.health.State()
	f.mu.Lock()
	defer f.mu.Unlock()
	why, at := f.schedule.Waits(namespace, f.now(), v)
	return why, f.wall(at)
}

// EntryWaits does the same as Waits for one entry's pending write.
func (f *Flusher) EntryWaits(id journal.ID) (why string, until time.Time) {
	v := f.health.State()
	f.mu.Lock()
	defer f.mu.Unlock()
	why, at := f.schedule.EntryWaits(id, f.now(), v)
	return why, f.wall(at)
}

// TryNow sends at once the writes that wait only for a time, of one namespace or, with "", all: the
// writes of a throttled or paused namespace, and those that wait after a failure. A late window goes on.
func (f *Flusher) TryNow(namespace string) {
	defer f.signal()
	f.health.Nudge()
	if namespace == "" {
		f.eachQueue(f.tryNow)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.schedule.Queue(namespace); q != nil {
		f.tryNow(q)
	}
}

// tryNow does that for one queue. The caller holds mu.
func (f *Flusher) tryNow(q *schedule.Queue) {
	f.opts.Quotas.Lift(q.Key())
	f.schedule.TryNow(q, f.now())
}
