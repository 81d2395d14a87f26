package upstream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/journal"
)

// Rehearsal is an engine that fails for one namespace as a drill says, and leaves all others to
// the engine behind it. It makes its failures up: see [Error.Rehearsed]. Its methods may be
// called concurrently.
type Rehearsal struct {
	Engine
	fault atomic.Pointer[rehearsedFault] // nil if there is none
}

type rehearsedFault struct {
	namespace string
	failed    *Error
}

// NewRehearsal returns a rehearsal that fails for nobody.
func NewRehearsal(engine Engine) *Rehearsal { return &Rehearsal{Engine: engine} }

// Fail has the requests of a namespace fail until End. The namespace waits as long as
// retryAfter says, or else by a backoff.
func (r *Rehearsal) Fail(namespace, reason string, retryAfter time.Duration) {
	r.fault.Store(&rehearsedFault{namespace, &Error{Verdict: Throttled, Reason: reason, RetryAfter: retryAfter, Rehearsed: true}})
}

// End ends the failures.
func (r *Rehearsal) End() { r.fault.Store(nil) }

// refusal is nil if there is none. It is a copy: the caller may change it.
func (r *Rehearsal) refusal(namespace string) error {
	f := r.fault.Load()
	if f == nil || f.namespace != namespace {
		return nil
	}
	failed := *f.failed
	return &failed
}

// Get implements [Engine].
func (r *Rehearsal) Get(ctx context.Context, id journal.ID) (*journal.Observation, error) {
	if err := r.refusal(id.Namespace); err != nil {
		return nil, err
	}
	return r.Engine.Get(ctx, id)
}

// List implements [Engine].
func (r *Rehearsal) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	if err := r.refusal(namespace); err != nil {
		return nil, false, err
	}
	return r.Engine.List(ctx, namespace)
}

// Put implements [Engine].
func (r *Rehearsal) Put(ctx context.Context, id journal.ID, value string) error {
	if err := r.refusal(id.Namespace); err != nil {
		return err
	}
	return r.Engine.Put(ctx, id, value)
}

// Delete implements [Engine].
func (r *Rehearsal) Delete(ctx context.Context, id journal.ID) (held bool, err error) {
	if err := r.refusal(id.Namespace); err != nil {
		return false, err
	}
	return r.Engine.Delete(ctx, id)
}

// Versions are an engine's, which fail as the rehearsal says; nil for nil.
func (r *Rehearsal) Versions(of Versions) Versions {
	if of == nil {
		return nil
	}
	return &rehearsedVersions{of, r}
}

type rehearsedVersions struct {
	Versions
	rehearsal *Rehearsal
}

// Version implements [Versions].
func (v *rehearsedVersions) Version(ctx context.Context, id journal.ID) (Version, error) {
	if err := v.rehearsal.refusal(id.Namespace); err != nil {
		return Version{}, err
	}
	return v.Versions.Version(ctx, id)
}

// Swap implements [Versions].
func (v *rehearsedVersions) Swap(ctx context.Context, p Proposal) (Version, error) {
	if err := v.rehearsal.refusal(p.Namespace); err != nil {
		return Version{}, err
	}
	return v.Versions.Swap(ctx, p)
}
