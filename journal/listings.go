package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Listings reads the settled listings of namespaces. Its methods may be called concurrently.
type Listings struct {
	store   *store.Store
	pending *pendingSet
	copies  *copies
}

// Head returns the listing of a namespace without its rows; ok is false if there is none.
func (l *Listings) Head(namespace string) (head Listing, ok bool, err error) {
	head, _, ok, err = l.Shows(ID{Namespace: namespace})
	return head, ok, err
}

// Shows returns the listing of an entry's namespace without its rows, and reports whether the listing
// has a row for the entry. ok is false if there is no listing.
func (l *Listings) Shows(id ID) (head Listing, shows, ok bool, err error) {
	if err := l.store.Acquire(); err != nil {
		return Listing{}, false, false, err
	}
	defer l.store.Release()
	listing := ID{Namespace: id.Namespace}
	snapshot := l.copies.snapshot(listing)
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	h, shows, ok, err := readListed(l.copies, snapshot, id)
	if err != nil || !ok {
		return Listing{}, false, false, err
	}
	confirmed := h.FetchedAt
	if confirmed != 0 {
		confirmed = max(confirmed, l.copies.seen.get(listing).confirmedAt)
	}
	return Listing{FetchedAt: fromUnix(confirmed), Complete: h.Complete}, shows, true, nil
}

// Lacks returns the keys of a namespace's listing whose settled copy is missing or differs from the
// listing. It skips entries with a pending write. The call does not count as a use of the copies.
func (l *Listings) Lacks(namespace string) (keys []string, err error) {
	if err := l.store.Acquire(); err != nil {
		return nil, err
	}
	defer l.store.Release()
	snapshot := l.copies.snapshot(ID{Namespace: namespace})
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	_, ok, _, err := l.copies.listing(snapshot, namespace, func(row Row) error {
		lacks, err := l.lacks(snapshot, ID{Namespace: namespace, Key: row.Key}, row)
		if lacks {
			keys = append(keys, row.Key)
		}
		return err
	})
	if err != nil || !ok {
		return nil, err
	}
	return keys, nil
}

// lacks reports whether a listed entry has no pending write, and no settled copy that matches its row.
func (l *Listings) lacks(r pebble.Reader, id ID, row Row) (bool, error) {
	if _, isPending, err := l.pending.visible(id); err != nil || isPending {
		return false, err
	}
	same, err := l.shows(r, id, row)
	if err != nil {
		return false, fmt.Errorf("copy of %s: %w", id, err)
	}
	return !same, nil
}

// shows reports whether the settled copy of an entry matches its row: both have the same size, and come
// from the same write of this journal or have the same time.
func (l *Listings) shows(r pebble.Reader, id ID, row Row) (same bool, err error) {
	var o Observation
	ok, err := store.Get(r, record.EntryKey(record.SettledPrefix, id), func(body []byte) (err error) {
		o, _, err = record.DecodeSettledHead(body)
		return err
	})
	if damaged, err := l.copies.giveUp(err); damaged || err != nil || !ok {
		return false, err
	}
	sameWrite := row.Origin.Seq != 0 && row.Origin.Seq == o.Origin.Seq
	sameTime := o.UpdatedAt == row.UpdatedAt || o.UpdatedAt == row.Origin.At || row.Origin.At != 0 && row.Origin.At == o.Origin.At
	return row.ListBytes == o.ListBytes && (sameWrite || sameTime), nil
}
