package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// DB returns a reader of the store as it is now. Use it only between [Store.Acquire] and
// [Store.Release].
func (s *Store) DB() pebble.Reader { return s.db }

// Snapshot returns a snapshot of the store. The caller closes it.
func (s *Store) Snapshot() *pebble.Snapshot { return s.db.NewSnapshot() }

// Get reads one sealed record; ok is false if there is none. decode must not keep the body, because it
// belongs to Pebble.
func Get(r pebble.Reader, key []byte, decode func(body []byte) error) (ok bool, err error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	body, err := record.Unseal(key, value)
	if err == nil {
		err = decode(body)
	}
	if closeErr := closer.Close(); err == nil {
		err = closeErr
	}
	return err == nil, err
}

// ErrEnough ends a scan early.
var ErrEnough = errors.New("enough")

// ReadVersion reads a version of an entry; ok is false if the store does not hold it.
func ReadVersion(r pebble.Reader, id record.ID, seq uint64) (v record.Version, ok bool, err error) {
	ok, err = Get(r, record.VersionKey(id, seq), func(body []byte) (err error) {
		v, err = record.DecodeVersion(body)
		return err
	})
	return v, ok, err
}

// ScanPrefix calls visit, as [Scan] does, for every sealed record under a prefix.
func ScanPrefix(r pebble.Reader, prefix []byte, visit func(key, body []byte, sum uint32) error) error {
	return Scan(r, prefix, record.After(prefix), visit)
}

// Scan calls visit for every sealed record from one key up to, but not including, another. Key and body
// are valid only during the call.
func Scan(r pebble.Reader, from, to []byte, visit func(key, body []byte, sum uint32) error) error {
	return Each(r, from, to, func(key, value []byte) error {
		body, err := record.Unseal(key, value)
		if err != nil {
			return err
		}
		return visit(key, body, record.Sum(value))
	})
}

// Each calls visit for every record, sealed or not, from one key up to, but not including, another. Key
// and value are valid only during the call.
func Each(r pebble.Reader, from, to []byte, visit func(key, value []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		if err := visit(it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// HoldsKey reports whether there is a record with a key, damaged or not.
func HoldsKey(r pebble.Reader, key []byte) (bool, error) {
	_, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

// HoldsAny reports whether there is a record under a prefix.
func HoldsAny(r pebble.Reader, prefix []byte) (bool, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	if err != nil {
		return false, err
	}
	found := it.First()
	return found, errors.Join(it.Error(), it.Close())
}

// ScanPending calls visit for every pending record under a prefix, ordered by entry and sequence
// number.
func ScanPending(r pebble.Reader, prefix []byte, visit func(record.ID, record.Pending) error) error {
	return ScanPrefix(r, prefix, func(key, body []byte, sum uint32) error {
		id, v, err := record.ReadPending(key, body, sum)
		if err != nil {
			return err
		}
		return visit(id, v)
	})
}

// ScanDead calls visit for the dead letters from a sequence number on, in order.
func ScanDead(r pebble.Reader, first uint64, visit func(*record.Dead) error) error {
	return Scan(r, record.DeadKey(first), record.After([]byte(record.DeadPrefix)), func(key, body []byte, _ uint32) error {
		seq, err := record.ParseDeadKey(key)
		if err != nil {
			return err
		}
		l, err := record.DecodeDead(seq, body)
		if err != nil {
			return err
		}
		return visit(&l)
	})
}

// ReadTotals reads the state record. It returns [record.ErrCorrupt] also if the record is missing.
func ReadTotals(r pebble.Reader) (t record.Totals, err error) {
	ok, err := Get(r, record.StateKey, func(body []byte) (err error) {
		t, err = record.DecodeTotals(body)
		return err
	})
	if err == nil && !ok {
		err = fmt.Errorf("%w: the state record is missing", record.ErrCorrupt)
	}
	return t, err
}

// Count adds up the store's pending records and dead letters. It calls visit for each pending record,
// ordered by entry and sequence number.
func Count(r pebble.Reader, visit func(record.ID, record.Pending) error) (found record.Totals, err error) {
	err = ScanPending(r, []byte(record.PendingPrefix), func(id record.ID, v record.Pending) error {
		found.Add(id, &v)
		found.Seq = max(found.Seq, v.Seq)
		return visit(id, v)
	})
	if err != nil {
		return found, err
	}
	err = ScanDead(r, 0, func(l *record.Dead) error {
		found.AddDead(l)
		found.Seq = max(found.Seq, l.Seq)
		return nil
	})
	return found, err
}
