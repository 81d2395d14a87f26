package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// DeadLetters returns up to limit dead letters of writes after a sequence number,
// oldest first, without their values.
func (j *Journal) DeadLetters(after uint64, limit int) ([]DeadLetter, error) {
	if err := j.enter(); err != nil {
		return nil, err
	}
	defer j.leave()
	var letters []DeadLetter
	err := scanDeadFrom(j.db, after+1, func(l DeadLetter) error {
		if len(letters) >= limit {
			return errEnough
		}
		l.Value = ""
		letters = append(letters, l)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return letters, nil
}

// IsDead reports whether a dead letter holds this write, or a newer one to its entry.
// It reads the dead letters of younger writes only.
func (j *Journal) IsDead(id ID, seq uint64) (bool, error) {
	if err := j.enter(); err != nil {
		return false, err
	}
	defer j.leave()
	err := scanDeadFrom(j.db, seq, func(l DeadLetter) error {
		if l.ID == id {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("dead letters: %w", err)
	}
	return false, nil
}

// errEnough ends a scan early.
var errEnough = errors.New("enough")

func scanDead(r pebble.Reader, visit func(DeadLetter)) error {
	return scanDeadFrom(r, 0, func(l DeadLetter) error { visit(l); return nil })
}

// scanDeadFrom calls visit for the dead letters from a sequence number on.
func scanDeadFrom(r pebble.Reader, first uint64, visit func(DeadLetter) error) error {
	return scanRange(r, deadKey(first), after([]byte(deadPrefix)), func(key, body []byte, _ uint32) error {
		seq, err := parseDeadKey(key)
		if err != nil {
			return err
		}
		l, err := decodeDead(seq, body)
		if err != nil {
			return err
		}
		return visit(l)
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
	var w *NewWrite
	var a arrival
	t, err := j.begin(func(batch *pebble.Batch) ([]arrival, error) {
		l, err := j.deadLetter(seq)
		if err != nil {
			return nil, err
		}
		w = &NewWrite{ID: l.ID, Op: l.Op, Value: l.Value, ListBytes: l.ListBytes}
		if a, err = j.place(batch, w, l.size()); err != nil {
			return nil, err
		}
		return []arrival{a}, j.removeDead(batch, &l)
	})
	if err := j.outcome(t, err); err != nil {
		return Write{}, err
	}
	return a.version.write(w.ID, w.Value), nil
}

// Discard removes a dead letter for good. Errors: [ErrNoDeadLetter].
func (j *Journal) Discard(seq uint64) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	return j.change(func(batch *pebble.Batch) error {
		l, err := j.deadLetter(seq)
		if err != nil {
			return err
		}
		return j.removeDead(batch, &l)
	})
}

// removeDead takes a dead letter out of the store and the totals. The caller holds
// commitMu.
func (j *Journal) removeDead(batch *pebble.Batch, l *DeadLetter) error {
	if err := batch.Delete(deadKey(l.Seq), nil); err != nil {
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
