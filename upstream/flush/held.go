package flush

import (
	"context"
	"errors"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/limit"
)

// held makes the requests about a write, one after the other in a slot.
type held struct {
	*limit.Slot
	engine upstream.Engine
}

// hold waits for a slot. The caller releases it. A request that gets no slot before ctx ends is not sent.
func (f *Flusher) hold(ctx context.Context, namespace string) (*held, *upstream.Error) {
	slot, err := f.opts.Slots.Acquire(ctx, limit.Writes, namespace)
	if err != nil {
		return nil, &upstream.Error{Verdict: upstream.Unsent, Reason: err.Error()}
	}
	return &held{slot, f.opts.Engine}, nil
}

func (h *held) do(ctx context.Context, request func() error) error {
	h.Begin()
	err := request()
	if err == nil || ctx.Err() == nil {
		failed := upstream.ErrorOf(err)
		h.Ended(failed.PushesBack(), failed.Says())
	}
	return err
}

func (h *held) get(ctx context.Context, id journal.ID) (v upstream.Version, err error) {
	err = h.do(ctx, func() error {
		v, err = h.engine.Get(ctx, id)
		return err
	})
	return v, err
}

// swap carries a write out. A conflict is an answer of upstream's, and no failure.
func (h *held) swap(ctx context.Context, p upstream.Proposal) (v upstream.Version, conflict *upstream.Conflict, err error) {
	err = h.do(ctx, func() error {
		v, err = h.engine.Swap(ctx, p)
		if errors.As(err, &conflict) {
			return nil
		}
		return err
	})
	return v, conflict, err
}
