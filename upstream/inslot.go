package upstream

import (
	"context"
	"errors"

	"github.com/botwired/botwired/journal"
)

// inSlot makes the requests about a write, one after the other in a slot.
type inSlot struct {
	*slot
	engine   Engine
	versions Versions // nil if the engine has none
}

// hold waits for a slot for requests about a write. The caller releases it. A request that gets no slot
// before ctx ends is not sent.
func (f *Flusher) hold(ctx context.Context, namespace string) (*inSlot, *Error) {
	held, err := f.opts.Slots.acquire(ctx, writeLane, namespace)
	if err != nil {
		return nil, &Error{Verdict: Unsent, Reason: err.Error()}
	}
	return &inSlot{held, f.opts.Engine, f.opts.Versions}, nil
}

func (s *inSlot) do(ctx context.Context, request func() error) error {
	s.begin()
	err := request()
	if err == nil || ctx.Err() == nil {
		s.ended(errorOf(err))
	}
	return err
}

// get asks for the entry: see [Engine].
func (s *inSlot) get(ctx context.Context, id journal.ID) (o *journal.Observation, err error) {
	err = s.do(ctx, func() error {
		o, err = s.engine.Get(ctx, id)
		return err
	})
	return o, err
}

// getOnce is get in a slot that it waits for.
func (f *Flusher) getOnce(ctx context.Context, id journal.ID) (*journal.Observation, error) {
	s, failed := f.hold(ctx, id.Namespace)
	if failed != nil {
		return nil, failed
	}
	defer s.release()
	return s.get(ctx, id)
}

type seqKey struct{}

// SeqOf returns the number of the write that an engine is to send; 0 if it is asked for anything
// else, or if the write has none yet.
func SeqOf(ctx context.Context) uint64 {
	seq, _ := ctx.Value(seqKey{}).(uint64)
	return seq
}

// send sends a write. held says of a delete that upstream held the entry.
func (s *inSlot) send(ctx context.Context, w journal.Write) (held bool, failed *Error) {
	ctx = context.WithValue(ctx, seqKey{}, w.Seq)
	err := s.do(ctx, func() (err error) {
		if w.Op == journal.Delete {
			held, err = s.engine.Delete(ctx, w.ID)
			return err
		}
		return s.engine.Put(ctx, w.ID, w.Value)
	})
	return held, errorOf(err)
}

// sendOnce is send in a slot that it waits for.
func (f *Flusher) sendOnce(ctx context.Context, w journal.Write) (held bool, failed *Error) {
	s, failed := f.hold(ctx, w.Namespace)
	if failed != nil {
		return false, failed
	}
	defer s.release()
	return s.send(ctx, w)
}

// version asks for an entry's last version: see [Versions].
func (s *inSlot) version(ctx context.Context, id journal.ID) (v Version, err error) {
	err = s.do(ctx, func() error {
		v, err = s.versions.Version(ctx, id)
		return err
	})
	return v, err
}

// swap carries a write out: see [Versions]. A conflict is an answer of upstream's, and no failure.
func (s *inSlot) swap(ctx context.Context, p Proposal) (v Version, conflict *Conflict, err error) {
	err = s.do(ctx, func() error {
		v, err = s.versions.Swap(ctx, p)
		if errors.As(err, &conflict) {
			return nil
		}
		return err
	})
	return v, conflict, err
}
