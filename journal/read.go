package journal

import (
	"errors"
	"fmt"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// errGone says that the record of a pending write is no longer in the store.
var errGone = errors.New("a pending write is missing")

// Lookup returns the state of an entry: its pending write, else its settled copy, else what the
// namespace's listing shows. It sees every write that was acknowledged before the call.
func (j *Journal) Lookup(id ID) (State, error) {
	if err := j.store.Acquire(); err != nil {
		return State{}, err
	}
	defer j.store.Release()
	var gone uint64
	for {
		v, ok, err := j.pending.visible(id)
		if err != nil {
			return State{}, err
		}
		if !ok { // guard 6.1
			state, done, err := j.copies.durableState(id)
			if err != nil || done {
				return state, err
			}
			continue
		}
		state, err := j.pending.state(id, &v, j.copies)
		if errors.Is(err, errGone) && v.Seq != gone {
			gone = v.Seq // superseded or settled since the index was read
			continue
		}
		return state, damagedIf(err)
	}
}

// damagedIf adds [ErrCorrupt] to err if err is errGone. The caller has looked at the index twice, and
// the index still holds the write. A write leaves the index and the store under one hold of the
// readers' lock, so the store has lost it.
func damagedIf(err error) error {
	if errors.Is(err, errGone) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// state returns the State of an entry whose pending write is v. It reads the settled copy first:
// while the record of v exists, no newer write has settled.
func (p *pendingSet) state(id ID, v *record.Version, past *copies) (State, error) {
	state := State{
		Kind: Gone, Seq: v.Seq, ListBytes: int(v.ListBytes), CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
		WrittenAs: v.Seq,
	}
	if v.Op == Delete {
		return state, nil
	}
	if !v.AfterDelete {
		settled, err := past.read(id)
		if err != nil {
			return State{}, err
		}
		if settled.intact {
			state.CreatedAt = settled.CreatedAt
			state.UpdatedAt = max(state.UpdatedAt, settled.UpdatedAt) // guard 19.3
		}
	}
	value, err := p.value(id, v.Seq)
	if err != nil {
		return State{}, err
	}
	state.Kind, state.Value = Value, value
	return state, nil
}

// value reads the value of a pending write. Errors: errGone.
func (p *pendingSet) value(id ID, seq uint64) (string, error) {
	var value string
	ok, err := store.Get(p.store.DB(), record.PendingKey(id, seq), func(body []byte) error {
		_, bytes, err := record.DecodePending(body)
		value = string(bytes)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("pending write %d to %s: %w", seq, id, err)
	}
	if !ok {
		return "", errGone
	}
	return value, nil
}

// Newest returns the entry's pending write with its value, to send upstream; ok is false if there is
// none.
func (j *Journal) Newest(id ID) (w Write, ok bool, err error) {
	if err := j.store.Acquire(); err != nil {
		return Write{}, false, err
	}
	defer j.store.Release()
	var gone uint64
	for {
		v, ok, err := j.pending.visible(id)
		if err != nil || !ok {
			return Write{}, false, err
		}
		value, err := j.pending.value(id, v.Seq)
		if errors.Is(err, errGone) && v.Seq != gone {
			gone = v.Seq
			continue
		}
		if err != nil {
			return Write{}, false, damagedIf(err)
		}
		return writeOf(id, &v, value), true, nil
	}
}
