package upstream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/journal"
)

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
	// Logger receives outages and refusals. It must not be nil.
	Logger *slog.Logger
}

// Flusher carries pending writes upstream. See the package's doc for its rules. Its
// methods may be called concurrently.
type Flusher struct {
	opts   FlusherOptions
	health *health
	wake   chan struct{} // holds one token: something may have become due

	// mu guards the schedule and what hangs on it. A task that is running belongs to
	// its goroutine but for seq, firstAt, lastAt and hurry. It is taken after the
	// journal's lock, so the journal is never called with it held.
	mu       sync.Mutex
	schedule *schedule
	running  int
	window   int // requests that may be under way: grows after an outage
	draining bool
	waiters  map[*waiter]struct{}
}

// NewFlusher returns a flusher that does nothing until it is run. Its Changed has to
// be told of all changes from before the journal's index is rebuilt.
func NewFlusher(opts FlusherOptions) *Flusher {
	return &Flusher{
		opts:     opts,
		health:   newHealth(opts.BackoffInitial, opts.BackoffMax),
		wake:     make(chan struct{}, 1),
		schedule: newSchedule(),
		window:   opts.Concurrency,
		waiters:  make(map[*waiter]struct{}),
	}
}

// Changed is to be called by the journal on every change.
func (f *Flusher) Changed(c journal.Change) {
	if !c.Written {
		return
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.schedule.task(c.ID)
	if c.Seq < t.seq {
		return
	}
	t.seq, t.lastAt = c.Seq, now
	if t.firstAt.IsZero() {
		t.firstAt = now
	}
	if t.running {
		return
	}
	if t.doubt != nil && t.doubt.watched != nil {
		t.retryAt = time.Time{} // waited for a read-back; the newer write need not
	}
	f.wait(t)
}

// wait puts a task in line and wakes the dispatcher if it comes first. The caller
// holds mu.
func (f *Flusher) wait(t *task) {
	linger := f.opts.Linger(t.id.Namespace)
	if f.draining {
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
		t.doubt = &doubt{unknown: true}
		t.retryAt = time.Now().Add(f.opts.SettleTime)
		f.wait(t)
	}
	return nil
}

func (f *Flusher) dispatch(ctx context.Context, g *errgroup.Group) error {
	for ctx.Err() == nil {
		t, at := f.take()
		if t != nil {
			g.Go(func() error { return f.step(ctx, t) })
			continue
		}
		f.sleep(ctx, at)
	}
	return nil
}

// sleep returns when a task may have become due: at that time, if it is not zero, or
// when signalled; or else when ctx ends.
func (f *Flusher) sleep(ctx context.Context, at time.Time) {
	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-f.wake:
	case <-due:
	}
}

// take returns a task to be run now, or when to ask again; zero is when signalled.
func (f *Flusher) take() (*task, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.running >= f.window {
		return nil, time.Time{}
	}
	if at, ok := f.schedule.readyAt(); !ok || at.After(now) {
		return nil, at
	}
	if ok, at := f.health.admit(now); !ok {
		return nil, at
	}
	t := f.schedule.next(now)
	f.running++
	return t, time.Time{}
}

// step runs one task: it reads back what is being watched, or sends the newest.
func (f *Flusher) step(ctx context.Context, t *task) error {
	defer f.signal()
	f.mu.Lock()
	newest := t.seq
	f.mu.Unlock()
	if d := t.doubt; d != nil && d.watched != nil && d.watched.Seq >= newest {
		return f.readBack(ctx, t, *d.watched)
	}
	return f.send(ctx, t)
}

func (f *Flusher) send(ctx context.Context, t *task) error {
	w, ok, err := f.opts.Journal.Newest(t.id)
	if err != nil {
		return err
	}
	if !ok {
		return f.vanished(t)
	}
	// Durable before the request leaves: a crash must not forget that it may land.
	if err := f.opts.Journal.MarkSent(w); err != nil {
		return err
	}
	f.sending(t, w)
	out := f.opts.Client.Send(ctx, w)
	if out.Verdict != Confirmed && ctx.Err() != nil {
		return f.abandon(t, out)
	}
	if f.opts.OnOutcome != nil {
		f.opts.OnOutcome(w.Op, out)
	}
	return f.conclude(ctx, t, w, out)
}

// vanished ends a task whose entry has nothing pending: a sent mark was left behind.
func (f *Flusher) vanished(t *task) error {
	f.health.release()
	t.doubt = nil
	f.finish(t, 0)
	f.tell(journal.Write{ID: t.id, Seq: t.seq}, false)
	return f.opts.Journal.Unmark(t.id)
}

// sending notes that the entry has nothing unsent but what is newer than w.
func (f *Flusher) sending(t *task, w journal.Write) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.seq <= w.Seq {
		t.seq, t.firstAt = w.Seq, time.Time{}
	}
}

// abandon leaves a request that was cut off by the end of the process: its task runs
// no more. Its mark stays, unless it is certain that nothing was ever sent.
func (f *Flusher) abandon(t *task, out Outcome) error {
	f.health.release()
	if out.Verdict == Unsent && t.doubt == nil {
		return f.opts.Journal.Unmark(t.id)
	}
	return nil
}
