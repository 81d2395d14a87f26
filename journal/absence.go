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
	h, listed, err := readListed(c, snapshot, id)
	if err != nil || listed || doubted || !h.Complete || h.FetchedAt == 0 {
		return State{InDoubt: doubted, Listed: listed}, err
	}
	noted := c.seen.use(listing, unixNow())
	return State{Kind: Absent, ConfirmedAt: fromUnix(max(h.FetchedAt, noted.confirmedAt))}, nil
}

// readListed returns the header of a namespace's listing, zero if there is none, and whether
// the listing has a row of the entry. A damaged row counts as one.
func readListed(c *copies, r pebble.Reader, id ID) (h record.Header, listed bool, err error) {
	h, ok, err := readHeader(r, id.Namespace)
	if damaged, err := c.giveUp(err); damaged || err != nil || !ok {
		return record.Header{}, false, err
	}
	listed, err = store.Get(r, record.RowKey(id.Namespace, id.Key), func([]byte) error { return nil })
	if damaged, err := c.giveUp(err); damaged || err != nil {
		return h, damaged, err
	}
	return h, listed, nil
}

// doubtAbsence makes the namespace's listing no proof any more that upstream does not hold the
// entry, if it was one. The caller holds the copies lock.
func (t *Through) doubtAbsence(id ID) (fill func(*store.Tx), err error) {
	_, listed, err := readListed(t.copies, t.store.DB(), id)
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
	if err := l.store.Acquire(); err != nil {
		return Listing{}, false, err
	}
	defer l.store.Release()
	listing := ID{Namespace: namespace}
	snapshot := l.copies.snapshot(listing)
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	h, ok, err := readHeader(snapshot, namespace)
	if damaged, err := l.copies.giveUp(err); damaged || err != nil || !ok {
		return Listing{}, false, err
	}
	confirmed := h.FetchedAt
	if confirmed != 0 {
		confirmed = max(confirmed, l.copies.seen.get(listing).confirmedAt)
	}
	return Listing{FetchedAt: fromUnix(confirmed), Complete: h.Complete}, true, nil
}

// Lacks returns the keys in a namespace's listing of which no settled copy is kept, or one
// that is not what the listing shows, and the number of all keys in it. An entry with a
// pending write lacks nothing. Lacks does not count as a use of the copies.
func (l *Listings) Lacks(namespace string) (keys []string, listed int, err error) {
	if err := l.store.Acquire(); err != nil {
		return nil, 0, err
	}
	defer l.store.Release()
	snapshot := l.copies.snapshot(ID{Namespace: namespace})
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	kept, _, _, err := l.copies.listing(snapshot, namespace)
	if err != nil {
		return nil, 0, err
	}
	for _, row := range kept.Rows {
		id := ID{Namespace: namespace, Key: row.Key}
		if _, isPending, err := l.pending.visible(id); err != nil || isPending {
			if err != nil {
				return nil, 0, err
			}
			continue
		}
		same, err := l.shows(snapshot, id, row)
		if err != nil {
			return nil, 0, fmt.Errorf("copy of %s: %w", id, err)
		}
		if !same {
			keys = append(keys, row.Key)
		}
	}
	return keys, len(kept.Rows), nil
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
