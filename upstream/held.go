package upstream

import (
	"context"
	"errors"

	"github.com/botwired/botwired/journal"
)

// Held makes the requests about a write, one after the other in a slot.
type Held struct {
	slot   *slot
	engine Engine
}

// Hold waits for a slot for requests about a write. The caller releases it. A request that gets no slot
// before ctx ends is not sent.
func (s *Slots) Hold(ctx context.Context, engine Engine, namespace string) (*Held, *Error) {
	r, err := s.acquire(ctx, writeLane, namespace)
	if err != nil {
		return nil, &Error{Verdict: Unsent, Reason: err.Error()}
	}
	return &Held{r, engine}, nil
}

// Release gives the slot back.
func (h *Held) Release() { h.slot.release() }

func (h *Held) do(ctx context.Context, request func() error) error {
	h.slot.begin()
	err := request()
	if err == nil || ctx.Err() == nil {
		h.slot.ended(ErrorOf(err))
	}
	return err
}

// Get asks for an entry's last version: see [Engine].
func (h *Held) Get(ctx context.Context, id journal.ID) (v Version, err error) {
	err = h.do(ctx, func() error {
		v, err = h.engine.Get(ctx, id)
		return err
	})
	return v, err
}

// Swap carries a write out: see [Engine]. A conflict is an answer of upstream's, and no failure.
func (h *Held) Swap(ctx context.Context, p Proposal) (v Version, conflict *Conflict, err error) {
	err = h.do(ctx, func() error {
		v, err = h.engine.Swap(ctx, p)
		if errors.As(err, &conflict) {
			return nil
		}
		return err
	})
	return v, conflict, err
}
