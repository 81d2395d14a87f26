package flush

import (
	"cmp"
	"context"
	"runtime"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/schedule"
)

// Flush returns when every write acknowledged before the call has settled or become a dead letter: the
// writes of one namespace or, with "", all. It skips the linger, but respects throttling, backoff and
// quotas. If ctx ends first, Flush returns its error and what is left. It counts entries.
func (f *Flusher) Flush(ctx context.Context, namespace string) (settled, dead, pending int, err error) {
	if err := f.rebuilt(ctx); err != nil {
		return 0, 0, f.pending(), err
	}
	w := f.expedite(namespace)
	select {
	case <-w.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	r := f.leaveFlush(w)
	if r.Pending == 0 {
		err = nil
	}
	return r.Settled, r.Dead, r.Pending, err
}

// rebuilt waits until the journal has announced all pending writes of an earlier process.
func (f *Flusher) rebuilt(ctx context.Context) error {
	select {
	case <-f.opts.Journal.Rebuilt():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Flusher) pending() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.schedule.Pending()
}

// expedite ends the linger of all pending writes of a namespace, or with "" of all, and returns a wait
// for them.
func (f *Flusher) expedite(namespace string) *flushWait {
	if namespace != "" {
		return f.expediteNamespace(namespace)
	}
	f.mu.Lock()
	w := f.callers.flush("", f.schedule.Announced(), f.schedule.Pending())
	f.mu.Unlock()
	f.eachQueue(f.schedule.Expedite)
	return w
}

// queuesAtOnce bounds the queues visited under one hold of the lock.
const queuesAtOnce = 128

// eachQueue visits all queues. It releases the lock from time to time, so the schedule may change
// between two visits.
func (f *Flusher) eachQueue(visit func(*schedule.Queue)) {
	for cursor, done := 0, false; !done; {
		f.mu.Lock()
		cursor, done = f.schedule.Walk(cursor, queuesAtOnce, visit)
		f.mu.Unlock()
		runtime.Gosched() // otherwise this goroutine takes the lock again before a writer wakes up
	}
}

func (f *Flusher) expediteNamespace(namespace string) *flushWait {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.schedule
	q := s.Queue(namespace)
	if q == nil {
		return f.callers.flush(namespace, s.Announced(), 0)
	}
	s.Expedite(q)
	return f.callers.flush(namespace, s.Announced(), q.Pending())
}

func (f *Flusher) leaveFlush(w *flushWait) Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callers.leaveFlush(w)
	return w.result
}

// Await sends an entry's pending write without linger. It returns true when the write with that
// sequence number, or a newer one of the entry, has settled. It returns false when ctx ends first, or
// when the write has become a dead letter, or has lost a conflict.
func (f *Flusher) Await(ctx context.Context, id journal.ID, seq uint64) (settled bool) {
	w := f.awaitEntry(ctx, id, seq, false)
	if w == nil {
		// Rare: the write completed before its caller began to wait.
		_, dead, err := f.opts.Journal.IsDead(id, seq)
		return !dead && err == nil && ctx.Err() == nil
	}
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	f.leaveEntry(w)
	return w.settled
}

// Unconfirmed says that a write is durable here, and that upstream has not confirmed it.
type Unconfirmed struct {
	reason string // for people
	wait   time.Duration
}

func (u *Unconfirmed) Error() string {
	return "upstream has not confirmed it: " + u.reason
}

// RetryAfter returns when botwired sends the write; 0 if unknown.
func (u *Unconfirmed) RetryAfter() time.Duration { return u.wait }

// Confirm does the same as Await for a caller that is answered with what upstream says. It does not wait while
// upstream is known to be down, nor if the write has to wait for its namespace, for the end of a late window,
// or for longer than ctx. With itself, a newer write that has settled does not count: the caller's condition
// was about this one.
//
// Errors: *[Unconfirmed], and *[upstream.ServiceAnswer] with upstream's refusal. If the error is nil and settled
// is false, the write is no longer pending, and the journal knows what has become of it.
func (f *Flusher) Confirm(ctx context.Context, id journal.ID, seq uint64, itself bool) (settled bool, err error) {
	w := f.awaitEntry(ctx, id, seq, itself)
	if w == nil {
		return false, nil
	}
	for !f.isHeld(ctx, id) {
		select {
		case <-w.tried:
			continue // the attempt may have shown that the write has to wait
		case <-w.done:
		case <-ctx.Done():
		}
		break
	}
	ended := f.leaveEntry(w)
	switch {
	case w.settled:
		return true, nil
	case w.refusal != nil && w.refusal.Answer != nil:
		return false, upstream.AnswerOf(w.refusal)
	case ended:
		return false, nil
	}
	why, until := f.EntryWaits(id)
	u := &Unconfirmed{reason: cmp.Or(why, "it has not answered yet")}
	if !until.IsZero() {
		u.wait = max(time.Second, time.Until(until))
	}
	return false, u
}

// awaitEntry makes an entry urgent and returns a wait for one of its writes; nil if the entry has
// nothing pending, or if ctx ends before that is known.
func (f *Flusher) awaitEntry(ctx context.Context, id journal.ID, seq uint64, itself bool) *entryWait {
	w := f.tryAwaitEntry(id, seq, itself)
	if w == nil && f.rebuilt(ctx) == nil { // guard 13.90
		w = f.tryAwaitEntry(id, seq, itself)
	}
	return w
}

func (f *Flusher) tryAwaitEntry(id journal.ID, seq uint64, itself bool) *entryWait {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.schedule.ExpediteEntry(id) {
		return nil
	}
	return f.callers.entry(id, seq, itself)
}

// isHeld reports whether an entry's pending write is not sent before ctx's deadline, as far as is known, or waits
// for its namespace, for upstream's return, or for the end of a late window.
func (f *Flusher) isHeld(ctx context.Context, id journal.ID) bool {
	v := f.health.State()
	f.mu.Lock()
	defer f.mu.Unlock()
	deadline, _ := ctx.Deadline()
	return f.schedule.IsHeld(id, f.instant(deadline), f.now(), v)
}

// leaveEntry ends a wait, and reports whether the write has ended.
func (f *Flusher) leaveEntry(w *entryWait) (ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callers.leaveEntry(w)
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

type drain struct {
	since    time.Time
	deadline schedule.Instant // 0: none
	hopeless chan struct{}
	over     bool // hopeless is closed
}

// Drain flushes without linger, for shutdown. It returns when nothing is pending, when nothing more can
// be done by ctx's deadline, or when ctx ends. If upstream is down, Drain tries it once more at once,
// and then gives up. It does not wait for late windows: it sends such writes once more, and leaves them pending for
// the next start (contract 14). After the first call, no write lingers. Concurrent calls are not allowed.
func (f *Flusher) Drain(ctx context.Context) Result {
	if f.rebuilt(ctx) != nil {
		return Result{Pending: f.pending()}
	}
	d := &drain{since: time.Now(), hopeless: make(chan struct{})}
	if deadline, ok := ctx.Deadline(); ok {
		d.deadline = f.instant(deadline)
	}
	f.health.Nudge()
	w := f.beginDrain(d)
	f.signal()
	select {
	case <-w.done:
	case <-d.hopeless:
	case <-ctx.Done():
	}
	r := f.leaveFlush(w)
	f.eachQueue(func(q *schedule.Queue) {
		_, pending := f.schedule.InWindow(q, f.now())
		r.Unanswered += pending
	})
	return r
}

func (f *Flusher) beginDrain(d *drain) *flushWait {
	f.mu.Lock()
	again := f.schedule.BeginDraining()
	f.mu.Unlock()
	w := f.expedite("")
	if !again {
		f.eachQueue(func(q *schedule.Queue) { f.schedule.SendOnceMore(q, f.now()) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drain = d // set only now: lingering tasks would have made judgeDrain give up
	return w
}

// judgeDrain ends a drain that can do nothing more: no request is in flight, and the next could be made
// only at next. The caller holds mu.
func (f *Flusher) judgeDrain(next schedule.Instant) {
	d := f.drain
	if d == nil || d.over || f.schedule.Running() > 0 {
		return
	}
	v := f.health.State()
	late := next == 0 || d.deadline != 0 && next >= d.deadline
	if late || v.Down && !v.ProbeFailedAt.Before(d.since) { // guard 22.4
		d.over = true
		close(d.hopeless)
	}
}
