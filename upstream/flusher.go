package upstream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/journal"
)

// fullDiskRetry is how long a task waits when the disk is too full to flush.
const fullDiskRetry = time.Second

// FlusherOptions configures a flusher.
type FlusherOptions struct {
	Journal *journal.Journal
	Client  *Client
	// Linger is how long a write to a namespace waits for a newer one to its entry.
	Linger func(namespace string) time.Duration
	// Concurrency is the most requests under way.
	Concurrency int
	// SettleTime is how long an unanswered request may still be carried out.
	SettleTime time.Duration
	// BackoffInitial and BackoffMax bound the wait between attempts.
	BackoffInitial, BackoffMax time.Duration
	// OnOutcome, if not nil, is told of every write request's outcome.
	OnOutcome func(journal.Op, Outcome)
	// OnSettled, if not nil, is told of every write that has settled and that upstream
	// still held when it was last asked, before those who wait for it are.
	OnSettled func(journal.Write)
	// Logger receives outages and refusals. It must not be nil.
	Logger *slog.Logger
}

// Flusher carries pending writes upstream. See the package's doc for its rules. Its
// methods may be called concurrently.
type Flusher struct {
	opts   FlusherOptions
	epoch  time.Time // where instants count from
	health *health
	wake   chan struct{} // holds one token: something may have become due

	// mu guards the schedule and what hangs on it. A task that is running belongs to
	// its goroutine, which may read it without the lock, but for seq, firstAt, lastAt
	// and hurry; what it writes, others may read. It is taken after the journal's
	// lock, so the journal is never called with it held.
	mu       sync.Mutex
	schedule *schedule
	running  int
	window   int    // requests that may be under way: grows after an outage
	drain    *drain // not nil from the beginning of a drain
	waiters  map[*waiter]struct{}
}

// NewFlusher returns a flusher that does nothing until it is run. Its Changed has to
// be told of all changes from before the journal's index is rebuilt.
func NewFlusher(opts FlusherOptions) *Flusher {
	return &Flusher{
		opts:     opts,
		epoch:    time.Now(),
		health:   newHealth(opts.BackoffInitial, opts.BackoffMax),
		wake:     make(chan struct{}, 1),
		schedule: newSchedule(),
		window:   opts.Concurrency,
		waiters:  make(map[*waiter]struct{}),
	}
}

// now is the time on the flusher's clock, which no jump of the wall clock moves
// (contract 19).
func (f *Flusher) now() instant { return f.instant(time.Now()) }

// instant is a time on the flusher's clock; 0 stays 0.
func (f *Flusher) instant(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return max(1, instant(t.Sub(f.epoch))+1)
}

// Changed is to be called by the journal on every change.
func (f *Flusher) Changed(c journal.Change) {
	if !c.Written {
		return
	}
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.schedule.task(c.ID)
	if c.Seq < t.seq {
		return
	}
	t.seq, t.lastAt = c.Seq, now
	if t.firstAt == 0 {
		t.firstAt = now
	}
	if t.running {
		return
	}
	if d := t.doubt(); d != nil && d.watched != nil {
		t.trouble.retryAt = 0 // waited for a read-back; the newer write need not
	}
	f.wait(t)
}

// wait puts a task in line and wakes the dispatcher if it comes first. The caller
// holds mu.
func (f *Flusher) wait(t *task) {
	linger := f.opts.Linger(t.space.name)
	if f.drain != nil {
		linger = 0
	}
	f.schedule.wait(t, linger)
	if t.space.index == 0 && t.index == 0 {
		f.signal()
	}
}

func (f *Flusher) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run flushes until ctx ends or the journal fails. It waits for the requests under
// way, which end with ctx.
func (f *Flusher) Run(ctx context.Context) error {
	if err := f.recallDoubts(); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.dispatch(ctx, g) })
	return g.Wait()
}

// recallDoubts puts in doubt the entries of which an earlier process did not see an
// answer.
func (f *Flusher) recallDoubts() error {
	ids, err := f.opts.Journal.InDoubt()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		t := f.schedule.task(id)
		tr := t.troubled()
		tr.doubt, tr.retryAt = &doubt{unknown: true}, f.now()+instant(f.opts.SettleTime)
		f.wait(t)
	}
	return nil
}

func (f *Flusher) dispatch(ctx context.Context, g *errgroup.Group) error {
	for ctx.Err() == nil {
		t, at := f.take()
		if t == nil {
			f.sleep(ctx, at)
			continue
		}
		g.Go(func() error { return f.step(ctx, t) })
	}
	return nil
}

// sleep returns when a task may have become due: at that time, if it is not zero, or
// when signalled, or at the end of ctx.
func (f *Flusher) sleep(ctx context.Context, at instant) {
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

// take returns a task to be run now, or when to ask again; 0 is when signalled.
func (f *Flusher) take() (*task, instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running >= f.window {
		return nil, 0
	}
	now := f.now()
	if at, ok := f.schedule.readyAt(); !ok || at > now {
		f.judgeDrain(at)
		return nil, at
	}
	ok, probe, at := f.health.admit(time.Now())
	if !ok {
		f.judgeDrain(f.instant(at))
		return nil, f.instant(at)
	}
	f.running++
	if !probe {
		return f.schedule.next(now), 0
	}
	t := f.schedule.nextProbe(now)
	t.probe = true
	return t, 0
}
