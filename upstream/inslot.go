package upstream

import (
	"context"
	"errors"

	"github.com/botwired/botwired/journal"
)

// inSlot makes the requests about a write, one after the other in a slot.
type inSlot struct {
	*slot
	engine Engine
}

// hold waits for a slot for requests about a write. The caller releases it. A request that gets no slot
// before ctx ends is not sent.
func (f *Flusher) hold(ctx context.Context, namespace string) (*inSlot, *Error) {
	held, err := f.opts.Slots.acquire(ctx, writeLane, namespace)
	if err != nil {
		return nil, &Error{Verdict: Unsent, Reason: err.Error()}
	}
	return &inSlot{held, f.opts.Engine}, nil
}

func (s *inSlot) do(ctx context.Context, request func() error) error {
	s.begin()
	err := request()
	if err == nil || ctx.Err() == nil {
		s.ended(errorOf(err))
	}
	return err
}

// get asks for an entry's last version: see [Engine].
func (s *inSlot) get(ctx context.Context, id journal.ID) (v Version, err error) {
	err = s.do(ctx, func() error {
		v, err = s.engine.Get(ctx, id)
		return err
	})
	return v, err
}

// getOnce is get in a slot that it waits for.
func (f *Flusher) getOnce(ctx context.Context, id journal.ID) (Version, error) {
	s, failed := f.hold(ctx, id.Namespace)
	if failed != nil {
		return Version{}, failed
	}
	defer s.release()
	return s.get(ctx, id)
}

// swap carries a write out: see [Engine]. A conflict is an answer of upstream's, and no failure.
func (s *inSlot) swap(ctx context.Context, p Proposal) (v Version, conflict *Conflict, err error) {
	err = s.do(ctx, func() error {
		v, err = s.engine.Swap(ctx, p)
		if errors.As(err, &conflict) {
			return nil
		}
		return err
	})
	return v, conflict, err
}
