package journal

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

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
		return state, j.pending.damagedIf(err)
	}
}

// damagedIf adds [ErrCorrupt] to err if err is errGone, and ends the process. The caller has looked at the index twice, and
// the index still holds the write. A write leaves the index and the store under one hold of the
// readers' lock, so the store has lost it.
func (p *pendingSet) damagedIf(err error) error {
	if errors.Is(err, errGone) {
		return p.store.Owed(fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	return err
}

// state returns the State of an entry whose pending write is v. It reads the settled copy, and then
// looks again: while readers see v, no newer write has settled. Errors: errGone.
func (p *pendingSet) state(id ID, v *record.Pending, past *copies) (State, error) {
	state := State{
		Kind: Gone, Seq: v.Seq, ListBytes: int(v.ListBytes), CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
		WrittenAs: v.Seq, MadeAt: v.WrittenAt, LosesTies: v.LosesTies,
	}
	if v.Op == Delete {
		return state, nil
	}
	if !v.AfterDelete {
		settled, err := past.readHead(id)
		if err != nil {
			return State{}, err
		}
		if now, ok, err := p.visible(id); err != nil || !ok || now.Seq != v.Seq { // guard 6.13
			return State{}, cmp.Or(err, errGone)
		}
		if settled.intact {
			state.CreatedAt = settled.CreatedAt
			state.UpdatedAt = max(state.UpdatedAt, settled.UpdatedAt) // guard 19.3
		}
	}
	written, err := p.version(id, v.Seq)
	if err != nil {
		return State{}, err
	}
	state.Kind, state.Value = Value, written.Value
	return state, nil
}

// version reads the version of a pending write. Errors: errGone.
func (p *pendingSet) version(id ID, seq uint64) (record.Version, error) {
	found, ok, err := readVersion(p.store.DB(), id, seq)
	if err != nil {
		return record.Version{}, p.store.Owed(fmt.Errorf("pending write %d to %s: %w", seq, id, err))
	}
	if !ok {
		return record.Version{}, errGone
	}
	return found, nil
}

// over reads the base of a conditional pending write. Errors: errGone.
func (p *pendingSet) over(id ID, seq uint64) (over *Base, err error) {
	ok, err := store.Get(p.store.DB(), record.AppendPendingKey(nil, id, seq), func(body []byte) (err error) {
		_, over, err = record.DecodePending(body)
		return err
	})
	if err != nil {
		return nil, p.store.Owed(fmt.Errorf("pending write %d to %s: %w", seq, id, err))
	}
	if !ok {
		return nil, errGone
	}
	return over, nil
}

// versionOf reads a version of an entry; ok is false if the store does not hold it, or not undamaged.
func versionOf(s *store.Store, id ID, seq uint64) (record.Version, bool, error) {
	if err := s.Acquire(); err != nil {
		return record.Version{}, false, err
	}
	defer s.Release()
	v, ok, err := readVersion(s.DB(), id, seq)
	if s.Damaged(err) {
		return record.Version{}, false, nil
	}
	return v, ok, err
}

// readVersion reads a version of an entry; ok is false if the store does not hold it.
func readVersion(r pebble.Reader, id ID, seq uint64) (v record.Version, ok bool, err error) {
	ok, err = store.Get(r, record.VersionKey(id, seq), func(body []byte) (err error) {
		v, err = record.DecodeVersion(body)
		return err
	})
	return v, ok, err
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
		removals := j.copies.removals.Load()
		v, ok, err := j.pending.visible(id)
		if err != nil || !ok {
			return Write{}, false, err
		}
		written, err := j.pending.version(id, v.Seq)
		if errors.Is(err, errGone) && v.Seq != gone {
			gone = v.Seq
			continue
		}
		if err != nil {
			return Write{}, false, j.pending.damagedIf(err)
		}
		w = writeOf(id, &v, written.Value, written.Author)
		w.removals, w.at, w.follows = removals, written.At, written.Follows
		if !v.Conditional {
			return w, true, nil
		}
		if w.Over, err = j.pending.over(id, v.Seq); !errors.Is(err, errGone) {
			return w, true, err
		} // a newer write has just replaced it: look again
	}
}
