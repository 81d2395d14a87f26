package walk

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// Keys walks the keys of one namespace, in order. It merges the settled copies, the rows and the
// pending writes.
type Keys struct {
	copies, rows recordIter
	pending      nameIter
	at           string
}

// NewKeys returns a walk positioned before the first key that follows after. The caller closes it.
func NewKeys(r pebble.Reader, namespace, after string) (*Keys, error) {
	w := &Keys{at: after}
	var errs [3]error
	w.copies, errs[0] = newRecordIter(r, record.Within(record.SettledPrefix, namespace), after)
	w.rows, errs[1] = newRecordIter(r, record.Within(record.RowPrefix, namespace), after)
	w.pending, errs[2] = newNameIter(r, record.Within(record.PendingPrefix, namespace), pendingName)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close ends the walk.
func (w *Keys) Close() error {
	return errors.Join(w.copies.close(), w.rows.close(), w.pending.close())
}

// Err returns the error that has ended the walk early, if any.
func (w *Keys) Err() error {
	return errors.Join(w.copies.it.Error(), w.rows.it.Error(), w.pending.error())
}

// Next moves to the next key, and returns false after the last one.
func (w *Keys) Next() (key string, ok bool) {
	w.copies.pass(w.at)
	w.rows.pass(w.at)
	for _, candidate := range []func() (string, bool){
		w.copies.key, w.rows.key, func() (string, bool) { return w.pending.after(w.at) },
	} {
		if found, there := candidate(); there && (!ok || found < key) {
			key, ok = found, true
		}
	}
	w.at = key
	return key, ok
}

// IsPending reports whether the walk's key has pending writes.
func (w *Keys) IsPending() bool { return w.pending.isAt(w.at) }

// Copy returns the settled copy of the walk's key, without its value; zero if there is none.
// Errors: [record.ErrCorrupt].
func (w *Keys) Copy() (o record.Observation, err error) {
	if !w.copies.isAt(w.at) {
		return o, nil
	}
	err = w.copies.unseal(func(body []byte) error { o, _, _, err = record.DecodeSettled(body); return err })
	return o, err
}

// Row returns the row of the walk's key; zero if there is none. Errors: [record.ErrCorrupt].
func (w *Keys) Row() (row record.Row, err error) {
	if !w.rows.isAt(w.at) {
		return row, nil
	}
	err = w.rows.unseal(func(body []byte) error { row, err = record.DecodeRow(w.at, body); return err })
	return row, err
}

// Confirmed reports whether the row and the copy of the walk's key show the same state: both have
// upstream's own time, and their times and sizes are equal.
func (w *Keys) Confirmed() bool {
	row, err := w.Row()
	if err != nil || row.Origin.At == 0 || !w.copies.isAt(w.at) {
		return false
	}
	kept, err := w.Copy()
	return err == nil && kept.Origin.At == row.Origin.At && kept.ListBytes == row.ListBytes // guard 9.31
}

// recordIter walks a namespace's records of one kind, which are sorted by key.
type recordIter struct {
	it     *pebble.Iterator
	prefix int
}

func newRecordIter(r pebble.Reader, prefix []byte, after string) (recordIter, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	if err == nil {
		it.SeekGE(append(bytes.Clone(prefix), after...))
	}
	return recordIter{it, len(prefix)}, err
}

func (n *recordIter) close() error {
	if n.it == nil {
		return nil
	}
	return n.it.Close()
}

func (n *recordIter) key() (key string, ok bool) {
	if !n.it.Valid() {
		return "", false
	}
	return string(n.it.Key()[n.prefix:]), true
}

func (n *recordIter) isAt(key string) bool {
	return n.it.Valid() && string(n.it.Key()[n.prefix:]) == key
}

// pass skips a key that the walk has already passed.
func (n *recordIter) pass(key string) {
	if n.it.Valid() && string(n.it.Key()[n.prefix:]) <= key {
		n.it.Next()
	}
}

func (n *recordIter) unseal(decode func(body []byte) error) error {
	body, err := record.Unseal(n.it.Key(), n.it.Value())
	if err != nil {
		return err
	}
	return decode(body)
}
