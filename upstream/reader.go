package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/botwired/botwired/journal"
)

// Unavailable says that upstream could not be asked, or gave no usable answer.
type Unavailable struct {
	Wait   time.Duration
	Reason string // for people
}

func (u *Unavailable) Error() string { return "upstream is unavailable: " + u.Reason }

// RetryAfter is when it makes sense to ask again.
func (u *Unavailable) RetryAfter() time.Duration { return u.Wait }

// ReaderOptions configures a reader.
type ReaderOptions struct {
	Client *Client
	// Patience is how long from the start of an outage a patient read keeps trying.
	Patience time.Duration
	// BackoffInitial and BackoffMax bound the wait between attempts.
	BackoffInitial, BackoffMax time.Duration
	// OnRecover, if not nil, is called when a read finds upstream back.
	OnRecover func()
}

// Reader asks upstream for entries and listings. During an outage one read at a time
// finds out whether it is over; the others are turned away, the patient ones after
// Patience from its start (contract 9). Its methods may be called concurrently.
type Reader struct {
	opts   ReaderOptions
	health *health

	mu       sync.Mutex // guards refusals
	refusals map[string]refusal
}

// NewReader returns a reader.
func NewReader(opts ReaderOptions) *Reader {
	return &Reader{
		opts: opts, health: newHealth(opts.BackoffInitial, opts.BackoffMax), refusals: make(map[string]refusal),
	}
}

// Get asks for an entry; nil without an error means that upstream does not hold it.
// Errors are *[Unavailable], *[Denied] and ctx's.
func (r *Reader) Get(ctx context.Context, id journal.ID, patient bool) (o *journal.Observation, err error) {
	err = r.try(ctx, id, patient, func() error {
		o, err = r.opts.Client.Get(ctx, id)
		return err
	})
	return o, err
}

// List asks for all keys of a namespace that upstream can list; complete is false if
// there may be more. Errors are those of Get.
func (r *Reader) List(ctx context.Context, namespace string, patient bool) (rows []journal.Row, complete bool, err error) {
	err = r.try(ctx, journal.ID{Namespace: namespace}, patient, func() error {
		rows, complete, err = r.opts.Client.List(ctx, namespace)
		return err
	})
	return rows, complete, err
}

func (r *Reader) try(ctx context.Context, id journal.ID, patient bool, ask func() error) error {
	for {
		err := r.once(ctx, id, ask)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if denied := denial(err); denied != nil {
			return denied
		}
		u := r.unavailable(err)
		now := time.Now()
		v := r.health.view()
		end := v.since.Add(r.opts.Patience)
		if !patient || !v.failing || !now.Before(end) {
			return u
		}
		if err := pause(ctx, min(max(u.Wait, r.opts.BackoffInitial/4), end.Sub(now))); err != nil {
			return err
		}
	}
}

// errTurnedAway says that upstream is down and that it is not this read's turn.
var errTurnedAway = errors.New("it is down")

// once makes one request, if upstream's health admits one, and learns from it.
func (r *Reader) once(ctx context.Context, id journal.ID, ask func() error) error {
	ok, probe, _ := r.health.admit(time.Now())
	if !ok {
		return errTurnedAway
	}
	err := ask()
	var failed *RequestError
	switch {
	case ctx.Err() != nil && err != nil:
		r.health.release(probe)
		return ctx.Err()
	case errors.As(err, &failed) && failed.verdict.blamesUpstream():
		r.health.failure(id, probe, failed.unreachable, failed.Error())
	default:
		r.refused(id.Namespace, failed)
		if r.health.success(id, probe).failing && r.opts.OnRecover != nil {
			r.opts.OnRecover()
		}
	}
	return err
}

// blamesUpstream reports whether the verdict says more of upstream than of the
// request.
func (v Verdict) blamesUpstream() bool { return v == Unwell || v == Unsent || v == Unanswered }

func (r *Reader) unavailable(err error) *Unavailable {
	v := r.health.view()
	u := &Unavailable{Wait: v.retryIn, Reason: v.text}
	var failed *RequestError
	if errors.As(err, &failed) {
		u.Reason, u.Wait = failed.Error(), max(u.Wait, failed.retryAfter)
	}
	return u
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Failing reports whether upstream is down as far as reads can tell, and why.
func (r *Reader) Failing() (bool, string) {
	v := r.health.view()
	return v.down, v.text
}
