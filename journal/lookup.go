package journal

import (
	"cmp"
	"errors"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/queue"
)

// Lookup returns the state of an entry: its pending write, else its settled copy, else what the
// namespace's listing shows. It sees every write that was acknowledged before the call.
func (j *Journal) Lookup(id ID) (State, error) {
	if err := j.store.Acquire(); err != nil {
		return State{}, err
	}
	defer j.store.Release()
	var gone uint64
	for {
		v, ok, err := j.queue.Visible(id)
		if err != nil {
			return State{}, err
		}
		if !ok { // guard 6.1
			state, done, err := j.entries.DurableState(id)
			if err != nil || done {
				return state, err
			}
			continue
		}
		state, err := j.pendingState(id, &v)
		if errors.Is(err, queue.ErrGone) && v.Seq != gone {
			gone = v.Seq // superseded or settled since the index was read
			continue
		}
		if hidden := j.queue.Readers.Hidden(id); hidden != nil { // guard 7.59
			<-hidden // the write takes its times from the copy
			continue
		}
		return state, j.queue.DamagedIf(err)
	}
}

// pendingState returns the State of an entry whose pending write is v. It reads the settled copy, and then
// looks again: while readers see v, no newer write has settled. Errors: ErrGone.
func (j *Journal) pendingState(id ID, v *record.Pending) (State, error) {
	state := State{
		Kind: Gone, Seq: v.Seq, ListBytes: int(v.ListBytes), CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
		WrittenAs: v.Seq, MadeAt: v.WrittenAt, LosesTies: v.LosesTies,
	}
	if v.Op == Delete {
		return state, nil
	}
	if !v.AfterDelete {
		settled, copied, err := j.entries.Head(id)
		if err != nil {
			return State{}, err
		}
		if now, ok, err := j.queue.Visible(id); err != nil || !ok || now.Seq != v.Seq { // guard 6.13
			return State{}, cmp.Or(err, queue.ErrGone)
		}
		if copied {
			state.CreatedAt = settled.CreatedAt
			state.UpdatedAt = max(state.UpdatedAt, settled.UpdatedAt) // guard 19.3
		}
	}
	written, err := j.queue.Version(id, v.Seq)
	if err != nil {
		return State{}, err
	}
	state.Kind, state.Value = Value, written.Value
	return state, nil
}
