package journal

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Keys walks the keys that the journal knows, without a list of all of them: there may be a
// million. Its methods may be called concurrently.
type Keys struct {
	store  *store.Store
	copies *copies
}

// KnownKey is a key with a pending write, a settled copy, or a row in the listing.
type KnownKey struct {
	Key string
	// Confirmed says that the listing has shown the settled copy as it is.
	Confirmed bool
}

// Listed is the header of a namespace's listing.
type Listed struct {
	FetchedAt time.Time // when upstream was asked; zero if there is no listing
	Complete  bool
}

// After returns, in order, up to most known keys that follow a key, and the listing that confirms
// some of them. A walk begins after "", which is no key. A walk meets every key that is known
// throughout; a key may become unknown, or be deleted, before the caller looks it up with
// [Journal.Lookup].
func (k *Keys) After(namespace, key string, most int) (keys []KnownKey, l Listed, err error) {
	l, err = k.walk(namespace, key, func(w *keyWalk, name string) (bool, error) {
		keys = append(keys, KnownKey{Key: name, Confirmed: w.confirmed()})
		return len(keys) < most, nil
	})
	return keys, l, err
}

// walk visits a namespace's keys that follow after, in order, until visit returns false.
func (k *Keys) walk(namespace, after string, visit func(w *keyWalk, name string) (more bool, err error)) (l Listed, err error) {
	if err := k.store.Acquire(); err != nil {
		return l, err
	}
	defer k.store.Release()
	listing := ID{Namespace: namespace}
	// A confirmation from before the snapshot is one of rows that have not changed since, or
	// the header of the changed ones is newer.
	noted := k.copies.seen.get(listing)
	snapshot := k.copies.snapshot(listing)
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if l, err = listedIn(snapshot, namespace, noted.confirmedAt); err != nil {
		return l, fmt.Errorf("keys of %s: %w", namespace, err)
	}
	w, err := newKeyWalk(snapshot, namespace, after)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for more := true; more; {
		name, ok := w.next()
		if !ok {
			break
		}
		if more, err = visit(w, name); err != nil {
			return l, err
		}
	}
	return l, w.error()
}

func listedIn(r pebble.Reader, namespace string, confirmedAt float64) (Listed, error) {
	h, ok, err := readHeader(r, namespace)
	if store.IsDamage(err) {
		return Listed{}, nil // no listing any more: a reader gives it up
	}
	if err != nil || !ok {
		return Listed{}, err
	}
	return Listed{FetchedAt: fromUnix(max(h.FetchedAt, confirmedAt)), Complete: h.Complete}, nil
}

// keyWalk walks one snapshot of the store. It merges the order of the copies, of the rows, and of
// the pending writes.
type keyWalk struct {
	copies, rows nameIter
	pending      groupIter
	at           string
}

func newKeyWalk(r pebble.Reader, namespace, after string) (*keyWalk, error) {
	w := &keyWalk{at: after}
	var errs [3]error
	w.copies, errs[0] = newNameIter(r, record.Within(record.SettledPrefix, namespace), after)
	w.rows, errs[1] = newNameIter(r, record.Within(record.RowPrefix, namespace), after)
	w.pending, errs[2] = newGroupIter(r, record.Within(record.PendingPrefix, namespace), pendingName)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *keyWalk) close() error {
	return errors.Join(w.copies.close(), w.rows.close(), w.pending.close())
}

func (w *keyWalk) error() error {
	return errors.Join(w.copies.it.Error(), w.rows.it.Error(), w.pending.error())
}

// next moves to the next key, and returns false after the last one.
func (w *keyWalk) next() (name string, ok bool) {
	w.copies.pass(w.at)
	w.rows.pass(w.at)
	for _, candidate := range []func() (string, bool){
		w.copies.name, w.rows.name, func() (string, bool) { return w.pending.after(w.at) },
	} {
		if found, there := candidate(); there && (!ok || found < name) {
			name, ok = found, true
		}
	}
	w.at = name
	return name, ok
}

// confirmed reports whether the row and the copy at the walk's key are the same state: upstream's
// own time of both says so.
func (w *keyWalk) confirmed() bool {
	for _, it := range []*nameIter{&w.copies, &w.rows} {
		if name, ok := it.name(); !ok || name != w.at {
			return false
		}
	}
	row, err := w.rows.row()
	if err != nil || row.Origin.At == 0 {
		return false
	}
	kept, err := w.copies.copy()
	return err == nil && kept.Origin.At == row.Origin.At && kept.ListBytes == row.ListBytes // guard 9.31
}

// nameIter walks a namespace's records of one kind.
type nameIter struct {
	it     *pebble.Iterator
	prefix int
}

func newNameIter(r pebble.Reader, prefix []byte, after string) (nameIter, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	if err == nil {
		it.SeekGE(append(bytes.Clone(prefix), after...))
	}
	return nameIter{it, len(prefix)}, err
}

func (n *nameIter) close() error {
	if n.it == nil {
		return nil
	}
	return n.it.Close()
}

func (n *nameIter) name() (name string, ok bool) {
	if !n.it.Valid() {
		return "", false
	}
	return string(n.it.Key()[n.prefix:]), true
}

// pass goes on if the iterator is at a key already passed.
func (n *nameIter) pass(key string) {
	if n.it.Valid() && string(n.it.Key()[n.prefix:]) <= key {
		n.it.Next()
	}
}

func (n *nameIter) row() (row Row, err error) {
	name, _ := n.name()
	err = n.unseal(func(body []byte) error { row, err = record.DecodeRow(name, body); return err })
	return row, err
}

func (n *nameIter) copy() (o Observation, err error) {
	err = n.unseal(func(body []byte) error { o, _, err = record.DecodeSettledHead(body); return err })
	return o, err
}

func (n *nameIter) unseal(decode func(body []byte) error) error {
	body, err := record.Unseal(n.it.Key(), n.it.Value())
	if err != nil {
		return err
	}
	return decode(body)
}
