package entries

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/internal/walk"
)

// Keys walks the keys that the journal knows without building a list of them: there may be a million.
// Its methods may be called concurrently.
type Keys struct {
	entries *Entries
}

// KnownKey is a key with a pending write, a settled copy, or a row in the listing.
type KnownKey struct {
	Key string
	// Confirmed says that the listing has shown this version of the settled copy.
	Confirmed bool
}

// After returns, in order, up to most known keys that follow a key, and the listing that confirms some
// of them, without rows; zero if there is none. A walk begins after "", which is not a valid key. A walk
// meets every key that stays known throughout. A returned key may be deleted or forgotten before the
// caller looks it up with Journal.Lookup.
func (k *Keys) After(namespace, key string, most int) (keys []KnownKey, l Listing, err error) {
	l, err = k.entries.walk(namespace, key, func(w *walk.Keys, key string) (bool, error) {
		keys = append(keys, KnownKey{Key: key, Confirmed: w.Confirmed()})
		return len(keys) < most, nil
	})
	return keys, l, err
}

// walk visits a namespace's keys that follow after, in order, until visit returns false.
func (e *Entries) walk(namespace, after string, visit func(w *walk.Keys, key string) (more bool, err error)) (l Listing, err error) {
	if err := e.store.Acquire(); err != nil {
		return l, err
	}
	defer e.store.Release()
	listing := ID{Namespace: namespace}
	// A confirmation older than the snapshot applies to rows that have not changed since; if rows have
	// changed, the header is newer than the confirmation.
	noted := e.seen.get(listing)
	snapshot := e.snapshot(listing)
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

func listedIn(r pebble.Reader, namespace string, confirmedAt float64) (Listing, error) {
	h, ok, err := readHeader(r, namespace)
	if store.IsDamage(err) {
		return Listing{}, nil // counts as no listing: a reader gives it up
	}
	if err != nil || !ok {
		return Listing{}, err
	}
	return Listing{FetchedAt: store.Time(max(h.FetchedAt, confirmedAt)), Complete: h.Complete}, nil
}

// Known describes an entry, without its value.
type Known struct {
	Key       string
	Pending   bool
	Op        Op      // Put if the entry is not pending
	ListBytes int     // the size that a listing gives
	UpdatedAt float64 // Unix seconds
	// Seq is the sequence number of the pending write, or else of the write by this journal that made
	// the state; 0 if unknown.
	Seq uint64
}

// Known returns, in key order, up to most entries of a namespace whose keys begin with prefix and
// follow after, and the header of the namespace's listing. A walk begins after "". Pending deletes are
// included.
func (k *Keys) Known(namespace, prefix, after string, most int) (found []Known, l Listing, err error) {
	l, err = k.entries.walk(namespace, max(after, beforeAllWith(prefix)), func(w *walk.Keys, key string) (bool, error) {
		if len(key) < len(prefix) || key[:len(prefix)] != prefix {
			return false, nil // keys with the prefix come before this one
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

// known describes the entry at the walk's position. there is false if nothing is known about it.
func (k *Keys) known(w *walk.Keys, id ID) (known Known, there bool, err error) {
	v, pending, err := k.entries.queue.Visible(id)
	switch {
	case err != nil:
		return known, false, fmt.Errorf("looking at %s: %w", id, err)
	case pending:
		return Known{id.Key, true, v.Op, int(v.ListBytes), v.UpdatedAt, v.Seq}, true, nil
	case w.IsPending(): // it has settled since the walk began
		o, _, err := k.entries.Head(id)
		return settledKnown(id.Key, o), o != Observation{}, err
	}
	o, err := w.Copy()
	if err != nil {
		_, err = k.entries.giveUp(fmt.Errorf("settled copy of %s: %w", id, err))
		o = Observation{}
	}
	known, there = settledKnown(id.Key, o), o != Observation{}
	if err != nil {
		return known, there, err
	}
	row, damage := w.Row()
	if damage != nil {
		_, err = k.entries.giveUp(fmt.Errorf("row of %s: %w", id, damage))
	} else if row.UpdatedAt > known.UpdatedAt { // upstream has listed a later state than the copy
		known = Known{id.Key, false, Put, row.ListBytes, row.UpdatedAt, row.Origin.Seq}
		there = true
	}
	return known, there, err
}

func settledKnown(key string, o Observation) Known {
	return Known{key, false, Put, o.ListBytes, o.UpdatedAt, o.Origin.Seq}
}

// Namespaces returns, in order, up to most namespaces that follow after, have known entries, and for
// which accept returns true. A walk begins after "".
func (k *Keys) Namespaces(after string, most int, accept func(namespace string) bool) (names []string, err error) {
	if err := k.entries.store.Acquire(); err != nil {
		return nil, err
	}
	defer k.entries.store.Release()
	snapshot := k.entries.store.Snapshot()
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

// Count returns the number of a namespace's known entries, or most if there are more. An entry with a
// pending delete does not count.
func (k *Keys) Count(namespace string, most int) (n int, err error) {
	_, err = k.entries.walk(namespace, "", func(w *walk.Keys, key string) (bool, error) {
		if w.IsPending() {
			v, pending, err := k.entries.queue.Visible(ID{Namespace: namespace, Key: key})
			if err != nil || pending && v.Op == Delete {
				return true, err
			}
		}
		n++
		return n < most, nil
	})
	return n, err
}
