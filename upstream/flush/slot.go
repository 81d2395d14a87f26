package flush

import (
	"context"
	"errors"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/limit"
)

// slot makes the requests for a write, one after the other, in one slot of the limit.
type slot struct {
	*limit.Slot
	engine upstream.Engine
}

// hold waits for a slot, which the caller releases. If ctx ends first, the request is not sent.
func (f *Flusher) hold(ctx context.Context, namespace string) (*slot, *upstream.Error) {
	got, err := f.opts.Slots.Acquire(ctx, limit.Writes, namespace)
	if err != nil {
		return nil, &upstream.Error{Verdict: upstream.Unsent, Reason: err.Error()}
	}
	return &slot{got, f.opts.Engine}, nil
}

func (s *slot) do(ctx context.Context, request func() error) error {
	s.Begin()
	err := request()
	if err == nil || ctx.Err() == nil {
		failed := upstream.ErrorOf(err)
		s.Ended(failed.PushesBack(), failed.Says())
	}
	return err
}

func (s *slot) get(ctx context.Context, id journal.ID) (v upstream.Version, err error) {
	err = s.do(ctx, func() error {
		v, err = s.engine.Get(ctx, id)
		return err
	})
	return v, err
}

// swap carries a write out. A conflict is an answer from upstream, not a failure.
func (s *slot) swap(ctx context.Context, p upstream.Proposal) (v upstream.Version, conflict *upstream.Conflict, err error) {
	err = s.do(ctx, func() error {
		v, err = s.engine.Swap(ctx, p)
		if errors.As(err, &conflict) {
			return nil
		}
		return err
	})
	return v, conflict, err
}
