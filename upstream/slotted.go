package upstream

import (
	"context"
	"errors"

	"github.com/botwired/botwired/journal"
)

// slotted is an engine whose requests count as writes, and wait for a slot.
type slotted struct {
	engine   Engine
	versions Versions // nil if the engine has none
	slots    *Slots
}

// hold waits for a slot, in which requests are made one after the other. The caller releases
// it. A request that gets no slot before ctx ends is not sent.
func (s *slotted) hold(ctx context.Context, namespace string) (*inSlot, *Error) {
	held, err := s.slots.acquire(ctx, writeLane, namespace)
	if err != nil {
		return nil, &Error{Verdict: Unsent, Reason: err.Error()}
	}
	return &inSlot{s.engine, s.versions, held}, nil
}

// inSlot is an engine whose requests have a slot already.
type inSlot struct {
	engine   Engine
	versions Versions // nil if the engine has none
	slot     *slot
}

func (s *inSlot) do(ctx context.Context, request func() error) error {
	s.slot.begin()
	err := request()
	if err == nil || ctx.Err() == nil {
		s.slot.ended(errorOf(err))
	}
	return err
}

// Get implements [Engine].
func (s *inSlot) Get(ctx context.Context, id journal.ID) (o *journal.Observation, err error) {
	err = s.do(ctx, func() error {
		o, err = s.engine.Get(ctx, id)
		return err
	})
	return o, err
}

// List implements [Engine].
func (s *inSlot) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	err = s.do(ctx, func() error {
		rows, complete, err = s.engine.List(ctx, namespace)
		return err
	})
	return rows, complete, err
}

// Put implements [Engine].
func (s *inSlot) Put(ctx context.Context, id journal.ID, value string) error {
	return s.do(ctx, func() error { return s.engine.Put(ctx, id, value) })
}

// Delete implements [Engine].
func (s *inSlot) Delete(ctx context.Context, id journal.ID) (held bool, err error) {
	err = s.do(ctx, func() error {
		held, err = s.engine.Delete(ctx, id)
		return err
	})
	return held, err
}

// Version asks for an entry's last version: see [Versions].
func (s *inSlot) Version(ctx context.Context, id journal.ID) (v Version, err error) {
	err = s.do(ctx, func() error {
		v, err = s.versions.Version(ctx, id)
		return err
	})
	return v, err
}

// Swap carries a write out: see [Versions]. A conflict is an answer of upstream's, and no failure.
func (s *inSlot) Swap(ctx context.Context, p Proposal) (v Version, conflict *Conflict, err error) {
	err = s.do(ctx, func() error {
		v, err = s.versions.Swap(ctx, p)
		if errors.As(err, &conflict) {
			return nil
		}
		return err
	})
	return v, conflict, err
}

// Get implements [Engine].
func (s *slotted) Get(ctx context.Context, id journal.ID) (o *journal.Observation, err error) {
	held, failed := s.hold(ctx, id.Namespace)
	if failed != nil {
		return nil, failed
	}
	defer held.slot.release()
	return held.Get(ctx, id)
}

// List implements [Engine].
func (s *slotted) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	held, failed := s.hold(ctx, namespace)
	if failed != nil {
		return nil, false, failed
	}
	defer held.slot.release()
	return held.List(ctx, namespace)
}

// Put implements [Engine].
func (s *slotted) Put(ctx context.Context, id journal.ID, value string) error {
	held, failed := s.hold(ctx, id.Namespace)
	if failed != nil {
		return failed
	}
	defer held.slot.release()
	return held.Put(ctx, id, value)
}

// Delete implements [Engine].
func (s *slotted) Delete(ctx context.Context, id journal.ID) (held bool, err error) {
	in, failed := s.hold(ctx, id.Namespace)
	if failed != nil {
		return false, failed
	}
	defer in.slot.release()
	return in.Delete(ctx, id)
}
