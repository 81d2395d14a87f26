package journal

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/internal/walk"
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
	l, err = k.walk(namespace, key, func(w *walk.Keys, key string) (bool, error) {
		keys = append(keys, KnownKey{Key: key, Confirmed: w.Confirmed()})
		return len(keys) < most, nil
	})
	return keys, l, err
}

// walk visits a namespace's keys that follow after, in order, until visit returns false.
func (k *Keys) walk(namespace, after string, visit func(w *walk.Keys, key string) (more bool, err error)) (l Listed, err error) {
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
	w, err := walk.NewKeys(snapshot, namespace, after)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for more := true; more; {
		key, ok := w.Next()
		if !ok {
			break
		}
		if more, err = visit(w, key); err != nil {
			return l, err
		}
	}
	return l, w.Err()
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
