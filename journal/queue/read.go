package queue

import (
	"errors"
	"fmt"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// ErrGone says that the record of a pending write is no longer in the store.
var ErrGone = errors.New("a pending write is missing")

// Newest returns the entry's pending write with its value, to send upstream; ok is false if there is
// none.
func (q *Queue) Newest(id ID) (w Write, ok bool, err error) {
	if err := q.store.Acquire(); err != nil {
		return Write{}, false, err
	}
	defer q.store.Release()
	var gone uint64
	for {
		removals := q.store.Removals.Load()
		v, ok, err := q.Visible(id)
		if err != nil || !ok {
			return Write{}, false, err
		}
		written, err := q.Version(id, v.Seq)
		if errors.Is(err, ErrGone) && v.Seq != gone {
			gone = v.Seq
			continue
		}
		if err != nil {
			return Write{}, false, q.DamagedIf(err)
		}
		w = writeOf(id, &v, written.Value, written.Author)
		w.Lineage.Removals, w.Lineage.At, w.Lineage.Follows = removals, written.At, written.Follows
		if !v.Conditional {
			return w, true, nil
		}
		if w.Over, err = q.over(id, v.Seq); !errors.Is(err, ErrGone) {
			return w, true, err
		} // a newer write has just replaced it: look again
	}
}

// DamagedIf adds [record.ErrCorrupt] to err if err is ErrGone, and ends the process. The caller has looked at the index twice, and
// the index still holds the write. A write leaves the index and the store under one hold of the
// readers' lock, so the store has lost it.
func (q *Queue) DamagedIf(err error) error {
	if errors.Is(err, ErrGone) {
		return q.store.Owed(fmt.Errorf("%w: %w", record.ErrCorrupt, err))
	}
	return err
}

// Version reads the version of a pending write. Errors: ErrGone.
func (q *Queue) Version(id ID, seq uint64) (record.Version, error) {
	found, ok, err := store.ReadVersion(q.store.DB(), id, seq)
	if err != nil {
		return record.Version{}, q.store.Owed(fmt.Errorf("pending write %d to %s: %w", seq, id, err))
	}
	if !ok {
		return record.Version{}, ErrGone
	}
	return found, nil
}

// over reads the base of a conditional pending write. Errors: ErrGone.
func (q *Queue) over(id ID, seq uint64) (over *Base, err error) {
	ok, err := store.Get(q.store.DB(), record.AppendPendingKey(nil, id, seq), func(body []byte) (err error) {
		_, over, err = record.DecodePending(body)
		return err
	})
	if err != nil {
		return nil, q.store.Owed(fmt.Errorf("pending write %d to %s: %w", seq, id, err))
	}
	if !ok {
		return nil, ErrGone
	}
	return over, nil
}
