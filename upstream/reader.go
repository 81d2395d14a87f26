package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/botwired/botwired/journal"
)

// refusedFor is how long the status shows a refused read that nobody has tried again.
// After that it is not known whether upstream still refuses it.
const refusedFor = 10 * time.Minute

// Unavailable says that upstream could not be asked, or gave no usable answer.
type Unavailable struct {
	Wait   time.Duration
	Reason string // for people
}

func (u *Unavailable) Error() string { return "upstream is unavailable: " + u.Reason }

// RetryAfter is when it makes sense to ask again.
func (u *Unavailable) RetryAfter() time.Duration { return u.Wait }

// ServiceAnswer is upstream's own answer to a read that it does not carry out. Upstream is
// not down, and the answer is for the caller.
type ServiceAnswer struct{ failed *Error }

func (a *ServiceAnswer) Error() string {
	return "upstream does not carry out the read: " + a.failed.Reason
}

// RetryAfter is how long upstream asked to wait; 0 when it did not.
func (a *ServiceAnswer) RetryAfter() time.Duration { return a.failed.RetryAfter }

// Answer is what upstream answered, for the caller.
func (a *ServiceAnswer) Answer() (status int, body []byte) { return a.failed.Status, a.failed.Answer }

// ReaderOptions configures a reader.
type ReaderOptions struct {
	Engine Engine
	// Patience is how long after the start of an outage a read that waits for its end
	// keeps trying.
	Patience time.Duration
	// BackoffInitial and BackoffMax bound the wait between attempts.
	BackoffInitial, BackoffMax time.Duration
	// OnRecover, if not nil, is called when a read finds upstream back.
	OnRecover func()
}

// Reader asks upstream for entries and listings. During an outage one read at a time
// finds out whether it is over; the others fail, at once or, if they wait out outages,
// when Patience has passed since its start (contract 9). Its methods may be called
// concurrently.
type Reader struct {
	opts   ReaderOptions
	health *health

	mu      sync.Mutex // guards refused
	refused map[string]refusedRead
}

// refusedRead is the last read of a namespace that upstream does not let in.
type refusedRead struct {
	at     time.Time
	reason string
}

// NewReader returns a reader.
func NewReader(opts ReaderOptions) *Reader {
	return &Reader{
		opts: opts, health: newHealth(opts.BackoffInitial, opts.BackoffMax), refused: make(map[string]refusedRead),
	}
}

// Get asks for an entry; nil without an error means that upstream does not hold it.
// Errors are *[Unavailable], *[ServiceAnswer] and ctx's.
func (r *Reader) Get(ctx context.Context, id journal.ID, waitOutOutage bool) (o *journal.Observation, err error) {
	err = r.try(ctx, id, waitOutOutage, func() error {
		o, err = r.opts.Engine.Get(ctx, id)
		return err
	})
	return o, err
}

// List asks for all keys of a namespace that upstream can list; complete is false if
// there may be more. Errors are those of Get.
func (r *Reader) List(ctx context.Context, namespace string, waitOutOutage bool) (rows []journal.Row, complete bool, err error) {
	err = r.try(ctx, journal.ID{Namespace: namespace}, waitOutOutage, func() error {
		rows, complete, err = r.opts.Engine.List(ctx, namespace)
		return err
	})
	return rows, complete, err
}

func (r *Reader) try(ctx context.Context, id journal.ID, waitOutOutage bool, ask func() error) error {
	for {
		failed, err := r.once(ctx, id, ask)
		switch {
		case err != nil:
			return err
		case failed == nil:
			return nil
		case failed.Answer != nil:
			return &ServiceAnswer{failed}
		}
		v := r.health.view()
		u := &Unavailable{Wait: max(v.retryIn, failed.RetryAfter), Reason: failed.Reason}
		now, end := time.Now(), v.since.Add(r.opts.Patience)
		if !waitOutOutage || !v.failing || !now.Before(end) {
			return u
		}
		if err := sleep(ctx, min(max(u.Wait, r.opts.BackoffInitial/4), end.Sub(now))); err != nil {
			return err
		}
	}
}

// once makes one request, if upstream's health admits one, and learns from it. The error
// is ctx's.
func (r *Reader) once(ctx context.Context, id journal.ID, ask func() error) (failed *Error, err error) {
	ok, probe, _ := r.health.admit(time.Now())
	if !ok {
		return &Error{Verdict: Transient, Reason: r.health.view().reason}, nil
	}
	learned := false
	defer func() {
		if !learned { // by its end, or by a panic that is recovered elsewhere
			r.health.release(probe)
		}
	}()
	failed = errorOf(ask())
	if ctx.Err() != nil && failed != nil {
		return nil, ctx.Err()
	}
	learned = true
	switch {
	case failed != nil && failed.Verdict.blamesUpstream():
		r.health.failure(id, probe, failed.Unreachable, failed.Reason)
	default:
		r.noteRefused(id.Namespace, failed)
		if r.health.success(id, probe).failing && r.opts.OnRecover != nil {
			r.opts.OnRecover()
		}
	}
	return failed, nil
}

// noteRefused notes that upstream does not let reads of a namespace in, and with nil that
// it does.
func (r *Reader) noteRefused(namespace string, failed *Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case failed == nil:
		delete(r.refused, namespace)
	case failed.Verdict == Paused:
		remember(r.refused, namespace, refusedRead{time.Now(), failed.Reason})
	}
}

// Refused says, by namespace, why upstream does not let reads in though it is not down
// (contract 15).
func (r *Reader) Refused() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]string, len(r.refused))
	for namespace, last := range r.refused {
		if time.Since(last.at) > refusedFor {
			delete(r.refused, namespace)
			continue
		}
		out[namespace] = last.reason
	}
	return out
}

// Failing reports whether upstream is down as far as reads can tell, and why.
func (r *Reader) Failing() (bool, string) {
	v := r.health.view()
	return v.down, v.reason
}

// WriteConfirmed lets reads go again at once: upstream is there. The pause before the
// next probe, up to the longest backoff, was for a service that is down, and a caller who
// has just flushed expects an answer. It is to be called before the write settles.
func (r *Reader) WriteConfirmed() { r.health.endOutage() }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
