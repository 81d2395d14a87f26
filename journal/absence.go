package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// stateByListing is the State of an entry that has neither a pending write nor a settled copy
// that can be read. A complete listing knows what upstream did not hold: every write that
// settles and every answer of upstream's brings the listing forward. Nobody knows that of an
// entry in doubt.
//
// The header and the row are read from one snapshot: between the two, a listing that lacks
// keys could replace one that has all.
func (c *copies) stateByListing(id ID, doubted bool) (state State, err error) {
	listing := ID{Namespace: id.Namespace}
	snapshot := c.snapshot(listing)
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	h, listed, _, err := readListed(c, snapshot, id)
	if err != nil || listed || doubted || !h.Complete || h.FetchedAt == 0 { // guard 9.18
		return State{InDoubt: doubted, Listed: listed}, err
	}
	noted := c.seen.use(listing, unixNow())
	return State{Kind: Absent, ConfirmedAt: fromUnix(max(h.FetchedAt, noted.confirmedAt))}, nil // guard 9.20
}

// readListed returns the header of a namespace's listing, and whether the listing has a row of the
// entry; ok is false if there is no listing, and the header zero. A damaged row counts as one.
func readListed(c *copies, r pebble.Reader, id ID) (h record.Header, listed, ok bool, err error) {
	h, ok, err = readHeader(r, id.Namespace)
	if damaged, err := c.giveUp(err); damaged || err != nil || !ok {
		return record.Header{}, false, false, err
	}
	listed, err = store.Get(r, record.RowKey(id.Namespace, id.Key), func([]byte) error { return nil })
	if damaged, err := c.giveUp(err); damaged || err != nil {
		return h, damaged, true, err
	}
	return h, listed, true, nil
}

// doubtAbsence makes the namespace's listing no proof any more that upstream does not hold the
// entry, if it was one. The caller holds the copies lock.
func (t *WriteThrough) doubtAbsence(id ID) (fill func(*store.Tx), err error) {
	_, listed, _, err := readListed(t.copies, t.store.DB(), id)
	if err != nil {
		return nil, err
	}
	if listed {
		return func(*store.Tx) {}, nil
	}
	row, err := t.copies.forgetRow(id)
	if err != nil {
		return nil, err
	}
	return row.fill, nil
}

// Listings are the kept listings of namespaces. The methods may be called concurrently.
type Listings struct {
	store   *store.Store
	pending *pendingSet
	copies  *copies
}

// Head returns the listing of a namespace without its rows; ok is false if none is kept.
func (l *Listings) Head(namespace string) (head Listing, ok bool, err error) {
	head, _, ok, err = l.Shows(ID{Namespace: namespace})
	return head, ok, err
}

// Shows is [Listings.Head], and says whether the listing has a row of an entry.
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

// Lacks returns the keys in a namespace's listing of which no settled copy is kept, or one
// that is not what the listing shows. An entry with a
// pending write lacks nothing. Lacks does not count as a use of the copies.
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

// lacks reports whether an entry that a listing shows has neither a pending write nor the copy
// that the listing shows.
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

// shows reports whether the settled copy of an entry is what its row shows: the same write of
// this journal's, or a value with the same time.
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
