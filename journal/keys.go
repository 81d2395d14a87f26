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

// Known describes an entry, without its value.
type Known struct {
	Key       string
	Pending   bool
	Op        Op      // Put of what is not pending
	ListBytes int     // the size that a listing shows
	UpdatedAt float64 // Unix seconds
	// Seq is the sequence number of the pending write, or else of this journal's write that made
	// the state; 0 if unknown.
	Seq uint64
}

// Known returns up to most entries of a namespace whose keys begin with a prefix and follow
// another key, in the order of their keys, and what is known of the namespace's listing. A walk
// begins after "". Deletes are among them for as long as they are pending.
func (k *Keys) Known(namespace, prefix, after string, most int) (found []Known, l Listed, err error) {
	l, err = k.walk(namespace, max(after, beforeAllWith(prefix)), func(w *walk.Keys, key string) (bool, error) {
		if len(key) < len(prefix) || key[:len(prefix)] != prefix {
			return false, nil // they are behind those with the prefix
		}
		known, there, err := k.known(w, ID{Namespace: namespace, Key: key})
		if there {
			found = append(found, known)
		}
		return len(found) < most, err
	})
	return found, l, err
}

// beforeAllWith returns a position right before all keys that begin with prefix.
func beforeAllWith(prefix string) string {
	if prefix == "" {
		return ""
	}
	last := len(prefix) - 1
	return prefix[:last] + string([]byte{prefix[last] - 1, 0xff})
}

// known describes the entry at the walk's position. It returns false if nothing is known of it.
func (k *Keys) known(w *walk.Keys, id ID) (known Known, there bool, err error) {
	v, pending, err := k.copies.pending.visible(id)
	switch {
	case err != nil:
		return known, false, fmt.Errorf("looking at %s: %w", id, err)
	case pending:
		return Known{id.Key, true, v.Op, int(v.ListBytes), v.UpdatedAt, v.Seq}, true, nil
	case w.IsPending(): // it has settled since the walk began
		o, err := k.copies.head(id)
		return settledKnown(id.Key, o), o != Observation{}, err
	}
	o, err := w.Copy()
	if err != nil {
		_, err = k.copies.giveUp(fmt.Errorf("settled copy of %s: %w", id, err))
		o = Observation{}
	}
	known, there = settledKnown(id.Key, o), o != Observation{}
	if err != nil {
		return known, there, err
	}
	row, damage := w.Row()
	if damage != nil {
		_, err = k.copies.giveUp(fmt.Errorf("row of %s: %w", id, damage))
	} else if row.UpdatedAt > known.UpdatedAt { // upstream has listed a later state than the copy
		known = Known{id.Key, false, Put, row.ListBytes, row.UpdatedAt, row.Origin.Seq}
		there = true
	}
	return known, there, err
}

func settledKnown(key string, o Observation) Known {
	return Known{key, false, Put, o.ListBytes, o.UpdatedAt, o.Origin.Seq}
}

// Namespaces returns up to most namespaces of whose entries something is known here, in the order
// of their names: those that follow another one and that accept takes. A walk begins after "".
func (k *Keys) Namespaces(after string, most int, accept func(namespace string) bool) (names []string, err error) {
	if err := k.store.Acquire(); err != nil {
		return nil, err
	}
	defer k.store.Release()
	snapshot := k.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	w, err := walk.NewNamespaces(snapshot)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for len(names) < most {
		next, ok := w.After(after)
		if !ok {
			break
		}
		if after = next; accept(next) {
			names = append(names, next)
		}
	}
	return names, w.Err()
}

// Count counts the entries of a namespace, up to most of them.
func (k *Keys) Count(namespace string, most int) (n int, err error) {
	_, err = k.walk(namespace, "", func(w *walk.Keys, key string) (bool, error) {
		if w.IsPending() {
			v, pending, err := k.copies.pending.visible(ID{Namespace: namespace, Key: key})
			if err != nil || pending && v.Op == Delete {
				return true, err
			}
		}
		n++
		return n < most, nil
	})
	return n, err
}
