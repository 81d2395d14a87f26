package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// DeadLetters returns all dead letters, oldest first, without their values.
func (j *Journal) DeadLetters() ([]DeadLetter, error) {
	if err := j.enter(); err != nil {
		return nil, err
	}
	defer j.leave()
	var letters []DeadLetter
	err := scanDead(j.db, func(l DeadLetter) {
		l.Value = ""
		letters = append(letters, l)
	})
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return letters, nil
}

func scanDead(r pebble.Reader, visit func(DeadLetter)) error {
	return scan(r, []byte(deadPrefix), func(key, body []byte, _ uint32) error {
		seq, err := parseDeadKey(key)
		if err != nil {
			return err
		}
		l, err := decodeDead(seq, body)
		if err == nil {
			visit(l)
		}
		return err
	})
}

// size is what the dead letter counts for in the budget.
func (l *DeadLetter) size() int64 {
	return int64(pendingOverhead + len(l.Namespace) + len(l.Key) + len(l.Value))
}

// Retry journals a dead letter anew, as the newest write to its entry, and removes
// it. Errors: [ErrNoDeadLetter] and those of [Journal.Append].
func (j *Journal) Retry(seq uint64) (Write, error) {
	if err := j.enter(); err != nil {
		return Write{}, err
	}
	defer j.leave()
	l, err := j.deadLetter(seq)
	if err != nil {
		return Write{}, err
	}
	w := NewWrite{ID: l.ID, Op: l.Op, Value: l.Value, ListBytes: l.ListBytes}
	return j.append(w, addition{
		frees: l.size(),
		to:    func(batch *pebble.Batch) error { return j.removeDead(batch, seq) },
	})
}

// Discard removes a dead letter for good. Errors: [ErrNoDeadLetter].
func (j *Journal) Discard(seq uint64) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	batch, err := j.discard(seq)
	if err != nil {
		return err
	}
	return j.wait(batch)
}

func (j *Journal) discard(seq uint64) (*pebble.Batch, error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	batch := j.db.NewBatch()
	if err := j.removeDead(batch, seq); err != nil {
		return nil, errors.Join(err, batch.Close())
	}
	return batch, j.apply(batch)
}

// removeDead takes a dead letter out of the store and the totals. The caller holds
// commitMu.
func (j *Journal) removeDead(batch *pebble.Batch, seq uint64) error {
	l, err := j.deadLetter(seq)
	if err != nil {
		return err
	}
	if err := batch.Delete(deadKey(seq), nil); err != nil {
		return err
	}
	j.totals.dead--
	j.totals.deadBytes -= l.size()
	return nil
}

func (j *Journal) deadLetter(seq uint64) (DeadLetter, error) {
	var l DeadLetter
	ok, err := get(j.db, deadKey(seq), func(body []byte) (err error) {
		l, err = decodeDead(seq, body)
		return err
	})
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if !ok {
		return DeadLetter{}, fmt.Errorf("%w: %d", ErrNoDeadLetter, seq)
	}
	return l, nil
}
