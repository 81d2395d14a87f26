package upstream

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/limit"
)

// refusedFor is how long the status shows a refused read that was not repeated. After that it is
// unknown whether upstream still refuses it.
const refusedFor = 10 * time.Minute

// Unavailable says that upstream could not be asked, or gave no usable answer.
type Unavailable struct {
	Wait   time.Duration
	Reason string // for people
	held   bool
}

func (u *Unavailable) Error() string { return "upstream is unavailable: " + u.Reason }

// RetryAfter returns how long to wait before asking again.
func (u *Unavailable) RetryAfter() time.Duration { return u.Wait }

// Held reports whether upstream holds the entry, with a value that is refused.
func (u *Unavailable) Held() bool { return u.held }

// ServiceAnswer is upstream's own refusal of a request. Upstream is not down, and the answer is for the
// caller.
type ServiceAnswer struct{ failed *Error }

// AnswerOf returns the answer that a request failed with.
func AnswerOf(failed *Error) *ServiceAnswer { return &ServiceAnswer{failed} }

func (a *ServiceAnswer) Error() string {
	return "upstream does not carry out the read: " + a.failed.Reason
}

// RetryAfter returns how long upstream asked to wait; 0 if it did not.
func (a *ServiceAnswer) RetryAfter() time.Duration { return a.failed.RetryAfter }

// Answer returns upstream's own answer, for the caller.
func (a *ServiceAnswer) Answer() (status int, body []byte) { return a.failed.Status, a.failed.Answer }

// ReaderOptions configures a reader.
type ReaderOptions struct {
	Engine Engine
	// Health learns how requests end, and allows only probes while upstream is down.
	Health *Health
	// Slots limit the requests in flight.
	Slots *limit.Slots
	// Patience is how long a caller without another answer waits. It is also how long, from the start
	// of an outage, a read that waits out outages keeps trying.
	Patience time.Duration
	// BackoffInitial and BackoffMax bound the wait between attempts.
	BackoffInitial, BackoffMax time.Duration
}

// Reader asks upstream for entries and listings. During an outage, one read at a time probes. The
// others fail at once or, if they wait out outages, when Patience has passed since the outage began
// (contract 9). Its methods may be called concurrently.
type Reader struct {
	opts      ReaderOptions
	health    *Circuit
	throttles throttles

	mu      sync.Mutex // guards refused
	refused map[string]refusedRead
}

// refusedRead is the last read of a namespace that upstream refused.
type refusedRead struct {
	at     time.Time
	reason string
}

// blipProbes is the least number of probes while a read waits out an outage. With fewer probes, the
// last one could come long before the read gives up.
const blipProbes = 5

// NewReader returns a reader.
func NewReader(opts ReaderOptions) *Reader {
	longest := min(opts.BackoffMax, max(opts.BackoffInitial, opts.Patience/blipProbes)) // guard 9.17
	opts.Health.reads.backoff = NewBackoff(opts.BackoffInitial, longest)
	return &Reader{
		opts: opts, health: &opts.Health.reads, refused: make(map[string]refusedRead),
		throttles: throttles{
			initial: opts.BackoffInitial, longest: opts.BackoffMax, byNamespace: make(map[string]*throttle),
		},
	}
}

// leastPatience is the shortest time that a caller waits. Even while reads are known to fail, some
// caller's request has to find out that upstream is back.
const leastPatience = 250 * time.Millisecond

// patience returns how long a request may take before its callers are turned away.
func (r *Reader) patience() time.Duration { return max(leastPatience, r.opts.Patience) }

// Patience returns how long a caller without another answer waits for an entry or, without a key, a
// listing. The time is shorter while reads are known to fail. The request itself may take longer; its
// answer is for the next caller (contract 9).
func (r *Reader) Patience(id journal.ID) time.Duration {
	now := time.Now()
	since, known := r.health.knownToFail(id, now) // guard 9.11
	if !known {
		return r.patience()
	}
	return min(r.patience(), max(leastPatience, r.opts.Patience-now.Sub(since)))
}

// TooLong returns the error for a caller that has waited as long as Patience has returned.
func (r *Reader) TooLong() error {
	v := r.health.State()
	return &Unavailable{Wait: v.RetryIn, Reason: cmp.Or(v.Reason, noAnswerWithin(r.patience()))}
}

// noAnswerWithin returns the reason of a timeout, for people.
func noAnswerWithin(d time.Duration) string { return "no answer within " + d.String() }

// Get asks for an entry; nil without an error means that upstream does not hold it. Errors:
// *[Unavailable], *[ServiceAnswer] and ctx's.
func (r *Reader) Get(ctx context.Context, id journal.ID, waitOutOutage bool) (o *journal.Observation, err error) {
	err = r.try(ctx, id, waitOutOutage, func() error {
		v, err := r.opts.Engine.Get(ctx, id)
		o = v.Observation()
		return err
	})
	return o, err
}

// List asks for all keys of a namespace that upstream can list; complete is false if there may be more.
// Errors: as for Get.
func (r *Reader) List(ctx context.Context, namespace string, waitOutOutage bool) (rows []journal.Row, complete bool, err error) {
	err = r.try(ctx, journal.ID{Namespace: namespace}, waitOutOutage, func() error {
		rows, complete, err = r.opts.Engine.List(ctx, namespace)
		return err
	})
	return rows, complete, err
}

func (r *Reader) try(ctx context.Context, id journal.ID, waitOutOutage bool, ask func() error) error {
	longest := min(r.opts.BackoffMax, max(r.opts.BackoffInitial, r.opts.Patience/blipProbes))
	pauses := NewBackoff(r.opts.BackoffInitial, longest)
	for {
		failed, err := r.once(ctx, id, waitOutOutage, ask)
		switch {
		case err != nil:
			return err
		case failed == nil:
			return nil
		case failed.Answer != nil:
			return &ServiceAnswer{failed}
		}
		wait, turned := r.again(failed, waitOutOutage)
		if turned != nil {
			return turned
		}
		if wait > 0 && !failed.unasked && !r.health.State().Down {
			wait = max(wait, pauses.NextBackOff()) // guard 16.60
		}
		if err := tasks.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// again returns when to retry a failed read, or the error that turns it away.
func (r *Reader) again(failed *Error, waitOutOutage bool) (wait time.Duration, turned *Unavailable) {
	v := r.health.State()
	if failed.unasked && !v.Down {
		return 0, nil // another request has found upstream back
	}
	u := &Unavailable{Wait: max(v.RetryIn, failed.RetryAfter), Reason: cmp.Or(failed.Reason, v.Reason), held: failed.Held}
	now, end := time.Now(), v.Since.Add(r.opts.Patience)
	if !waitOutOutage || !v.Failing || !now.Before(end) || !failed.Verdict.BlamesUpstream() { // guard 9.8
		return 0, u
	}
	return min(max(u.Wait, r.opts.BackoffInitial/4), end.Sub(now)), nil
}

// once makes one request, unless the request is known to fail. err is ctx's.
func (r *Reader) once(ctx context.Context, id journal.ID, waitOutOutage bool, ask func() error) (failed *Error, err error) {
	// A read that would not be made does not wait for a slot.
	if refusal := r.throttles.refuses(id.Namespace); refusal != nil {
		return refusal, nil
	}
	if r.health.Blocks(id.Namespace, time.Now()) {
		return r.unasked(), nil
	}
	lane := limit.Refreshes
	if waitOutOutage {
		lane = limit.Reads
	}
	held, err := r.opts.Slots.Acquire(ctx, lane, id.Namespace)
	switch {
	case errors.Is(err, limit.ErrBusy):
		return &Error{Verdict: Unsent, Reason: err.Error()}, nil
	case err != nil:
		return nil, err
	}
	defer held.Release()
	refusal, trial := r.throttles.begin(id.Namespace)
	if refusal != nil {
		return refusal, nil
	}
	ended := &Error{Verdict: Unanswered} // kept if ask panics
	defer func() { r.throttles.end(id.Namespace, trial, ended) }()
	ok, probe, _ := r.health.Admit(time.Now())
	if !ok {
		if !r.health.hope(id.Namespace, time.Now()) {
			return r.unasked(), nil
		}
		defer r.health.hoped()
	}
	if ended, err = r.request(ctx, id, probe, ask); err == nil {
		held.Ended(ended.PushesBack(), ended.Says())
	}
	return ended, err
}

// unasked returns the failure of a read that was not sent because it would fail.
func (r *Reader) unasked() *Error {
	return &Error{Verdict: Transient, Reason: r.health.State().Reason, unasked: true}
}

// request makes a request and records its outcome. err is ctx's.
func (r *Reader) request(ctx context.Context, id journal.ID, probe bool, ask func() error) (failed *Error, err error) {
	learned := false
	defer func() {
		if !learned { // ctx ended, or ask panicked
			r.health.Release(probe)
		}
	}()
	sent := time.Now()
	answered := r.watch(id, sent)
	defer answered()
	failed = ErrorOf(ask())
	answered()
	if ctx.Err() != nil && failed != nil {
		return failed, ctx.Err()
	}
	learned = true
	if failed == nil || !failed.Verdict.BlamesUpstream() {
		r.noteRefused(id.Namespace, failed)
	}
	if failed.Says() {
		r.health.Success(id, probe)
	} else {
		r.health.Failure(id, probe, failed, sent)
	}
	return failed, nil
}

// watch reports a request to the health when its callers have stopped waiting for it, until answered is
// called.
func (r *Reader) watch(id journal.ID, sent time.Time) (answered func()) {
	told := make(chan struct{})
	timer := time.AfterFunc(r.patience(), func() {
		defer close(told)
		r.health.overdue(id, &Error{Verdict: Unanswered, Reason: noAnswerWithin(r.patience())}, sent)
	})
	return sync.OnceFunc(func() {
		if !timer.Stop() {
			<-told // so that the answer is recorded last
		}
	})
}

// noteRefused records whether upstream refuses a namespace's reads; nil means that upstream has
// accepted one.
func (r *Reader) noteRefused(namespace string, failed *Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case failed == nil:
		delete(r.refused, namespace)
	case failed.Verdict == Paused: // guard 15.12
		limit.Remember(r.refused, namespace, refusedRead{time.Now(), failed.Reason})
	}
}

// Refused returns, by namespace, why upstream refuses reads, or has them wait for long, although it is up (contract 15).
func (r *Reader) Refused() map[string]string {
	out := r.throttles.long()
	r.mu.Lock()
	defer r.mu.Unlock()
	for namespace, last := range r.refused {
		if time.Since(last.at) > refusedFor {
			delete(r.refused, namespace)
			continue
		}
		out[namespace] = last.reason
	}
	return out
}
