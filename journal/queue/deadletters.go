package queue

import (
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// DeadLetters returns up to limit dead letters with sequence numbers above after, oldest first, without
// values. All of them are durable.
func (q *Queue) DeadLetters(after uint64, limit int) ([]DeadLetter, error) {
	if err := q.store.Acquire(); err != nil {
		return nil, err
	}
	defer q.store.Release()
	if after == math.MaxUint64 {
		return nil, nil
	}
	var letters []DeadLetter
	err := store.ScanDead(q.store.DB(), after+1, func(l *record.Dead) error {
		if len(letters) >= limit {
			return store.ErrEnough
		}
		letter := letterOf(l)
		letter.Value = ""
		letters = append(letters, letter)
		return nil
	})
	if err == nil || errors.Is(err, store.ErrEnough) { // guard 7.3
		err = q.store.AwaitDurable()
	}
	if err != nil {
		return nil, q.store.Owed(fmt.Errorf("dead letters: %w", err))
	}
	return letters, nil
}

func letterOf(l *record.Dead) DeadLetter {
	return DeadLetter{
		Write: writeOf(l.ID, &l.Pending, l.Value, l.Author), Kind: l.Kind, SupersededBy: l.SupersededBy,
		Status: l.Status, Error: l.Error, RefusedAt: l.RefusedAt,
	}
}

// ReadDeadLetter returns one dead letter with its value. The dead letter is durable. Errors:
// [ErrNoDeadLetter].
func (q *Queue) ReadDeadLetter(seq uint64) (DeadLetter, error) {
	if err := q.store.Acquire(); err != nil {
		return DeadLetter{}, err
	}
	defer q.store.Release()
	l, err := q.Letters.Read(seq)
	if err == nil {
		err = q.store.AwaitDurable() // guard 7.4
	}
	if err != nil {
		return DeadLetter{}, err
	}
	return letterOf(&l), nil
}

// Discard removes a dead letter for good. Its receipt stays. Errors: [ErrNoDeadLetter].
func (q *Queue) Discard(seq uint64) error {
	return q.store.Use(func() error { return q.discard(seq) })
}

func (q *Queue) discard(seq uint64) error {
	l, err := q.Letters.Read(seq)
	if err != nil {
		return err
	}
	return q.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		if err := stillDead(tx, seq); err != nil {
			return err
		}
		q.Letters.Remove(tx, &l)
		return nil
	}))
}

func stillDead(tx *store.Tx, seq uint64) error {
	r, err := tx.Reader()
	if err == nil {
		_, err = ReadDead(r, seq)
	}
	return err
}

// Read reads a dead letter. Damage ends the process.
func (d *Letters) Read(seq uint64) (record.Dead, error) {
	l, err := ReadDead(d.store.DB(), seq)
	return l, d.store.Owed(err)
}

// ReadDead reads a dead letter. Errors: [ErrNoDeadLetter], [record.ErrCorrupt], and those of the file system.
func ReadDead(r pebble.Reader, seq uint64) (l record.Dead, err error) {
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
