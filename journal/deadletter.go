package journal

import (
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// errEnough ends a scan early.
var errEnough = errors.New("enough")

// DeadLetters returns up to limit dead letters of writes after a sequence number,
// oldest first, without their values. All of them are durable.
func (j *Journal) DeadLetters(after uint64, limit int) ([]DeadLetter, error) {
	if err := j.store.Acquire(); err != nil {
		return nil, err
	}
	defer j.store.Release()
	if after == math.MaxUint64 {
		return nil, nil
	}
	var letters []DeadLetter
	err := store.ScanDead(j.store.DB(), after+1, func(l *record.Dead) error {
		if len(letters) >= limit {
			return errEnough
		}
		letters = append(letters, DeadLetter{
			Write: writeOf(l.ID, &l.Version, ""), Status: l.Status, Error: l.Error, RefusedAt: l.RefusedAt,
		})
		return nil
	})
	if err == nil || errors.Is(err, errEnough) {
		err = j.store.AwaitDurable()
	}
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return letters, nil
}

// IsDead reports whether a durable dead letter holds this write, or a newer one to its
// entry. It reads the dead letters of younger writes only.
func (j *Journal) IsDead(id ID, seq uint64) (bool, error) {
	if err := j.store.Acquire(); err != nil {
		return false, err
	}
	defer j.store.Release()
	err := store.ScanDead(j.store.DB(), seq, func(l *record.Dead) error {
		if l.ID == id {
			return errEnough
		}
		return nil
	})
	found := errors.Is(err, errEnough)
	if found {
		err = j.store.AwaitDurable()
	}
	if err != nil {
		return false, fmt.Errorf("dead letters: %w", err)
	}
	return found, nil
}

// Retry journals a dead letter anew, as the newest write to its entry, and removes
// it. Errors: [ErrNoDeadLetter] and those of [Journal.Append].
func (j *Journal) Retry(seq uint64) (Write, error) {
	if err := j.store.Acquire(); err != nil {
		return Write{}, err
	}
	defer j.store.Release()
	l, err := readDead(j.store.DB(), seq)
	if err != nil {
		return Write{}, err
	}
	if err := j.pending.ready(l.ID); err != nil {
		return Write{}, err
	}
	unlock := j.copies.lock(l.Namespace)
	defer unlock()
	r := &retrying{dead: l, appending: appending{
		set: j.pending, frees: l.Size(), unlock: unlock,
		NewWrite: NewWrite{ID: l.ID, Op: l.Op, Value: l.Value, ListBytes: int(l.ListBytes)},
	}}
	if r.notBefore, err = j.copies.updatedAt(l.ID); err != nil {
		return Write{}, err
	}
	if err := j.store.Update(r); err != nil {
		return Write{}, err
	}
	return writeOf(l.ID, &r.write.Version, l.Value), nil
}

// retrying is a dead letter on its way back into the pending set.
type retrying struct {
	appending
	dead record.Dead
}

// Fill admits the write, unless somebody else has retried or discarded it.
func (r *retrying) Fill(tx *store.Tx) error {
	if err := stillDead(tx, r.dead.Seq); err != nil {
		r.unlock()
		return err
	}
	if err := r.appending.Fill(tx); err != nil {
		return err
	}
	tx.DeleteDead(&r.dead)
	return nil
}

// Discard removes a dead letter for good. Errors: [ErrNoDeadLetter].
func (j *Journal) Discard(seq uint64) error {
	if err := j.store.Acquire(); err != nil {
		return err
	}
	defer j.store.Release()
	l, err := readDead(j.store.DB(), seq)
	if err != nil {
		return err
	}
	return j.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		if err := stillDead(tx, seq); err != nil {
			return err
		}
		tx.DeleteDead(&l)
		return nil
	}))
}

// stillDead is [ErrNoDeadLetter] when the dead letter is not there any more.
func stillDead(tx *store.Tx, seq uint64) error {
	r, err := tx.Reader()
	if err == nil {
		_, err = readDead(r, seq)
	}
	return err
}

func readDead(r pebble.Reader, seq uint64) (l record.Dead, err error) {
	ok, err := store.Get(r, record.DeadKey(seq), func(body []byte) (err error) {
		l, err = record.DecodeDead(seq, body)
		return err
	})
	if err != nil {
		return l, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if !ok {
		return l, fmt.Errorf("%w: %d", ErrNoDeadLetter, seq)
	}
	return l, nil
}
