package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// DeadLetters returns all dead letters, oldest first, without their values.
func (j *Journal) DeadLetters() ([]DeadLetter, error) {
	var letters []DeadLetter
	err := scan(j.db, []byte(deadPrefix), func(key, body []byte, _ uint32) error {
		l, err := decodeDead(binary.BigEndian.Uint64(key[len(deadPrefix):]), body)
		l.Value = ""
		letters = append(letters, l)
		return err
	})
	return letters, err
}

// Retry journals a dead letter anew, as the newest write to its entry, and removes
// it. Errors: [ErrNoDeadLetter] and those of [Journal.Append].
func (j *Journal) Retry(seq uint64) (Write, error) {
	l, err := j.deadLetter(seq)
	if err != nil {
		return Write{}, err
	}
	w := NewWrite{ID: l.ID, Op: l.Op, Value: l.Value, ListBytes: l.ListBytes}
	return j.append(w, func(batch *pebble.Batch) error { return j.removeDead(batch, seq) })
}

// Discard removes a dead letter for good. Errors: [ErrNoDeadLetter].
func (j *Journal) Discard(seq uint64) error {
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
	j.totals.dead--
	j.totals.deadBytes -= int64(pendingOverhead + len(l.Namespace) + len(l.Key) + len(l.Value))
	return batch.Delete(deadKey(seq), nil)
}

func (j *Journal) deadLetter(seq uint64) (DeadLetter, error) {
	body, ok, err := get(j.db, deadKey(seq))
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if !ok {
		return DeadLetter{}, fmt.Errorf("%w: %d", ErrNoDeadLetter, seq)
	}
	return decodeDead(seq, body)
}
