package entries

import (
	"fmt"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// knownRow is new knowledge about an entry's row in its namespace's listing, and where it comes from.
type knownRow struct {
	Row
	gone    bool
	arrived bool    // one of our writes has just settled
	shownAt float64 // otherwise, Unix seconds: updated_at as upstream showed it
	foreign bool    // and its value is not the one that was kept as our write
}

// rowChange updates a namespace's listing, and the listings in flight, after one entry has changed.
type rowChange struct {
	observe func(*ListingFill)
	stripe  *stripe
	listing string
	write   func(*store.Tx) // nil if the listing on disk stays unchanged
	// absentAt is a time, in Unix seconds, at which upstream did not list the entry; 0 if none is known.
	absentAt float64
}

func (r *rowChange) changes() bool { return r.write != nil }

// fill makes the change. The caller holds the copies lock.
func (r *rowChange) fill(tx *store.Tx) {
	for _, f := range r.stripe.observers[r.listing] {
		r.observe(f)
	}
	if r.write != nil {
		r.write(tx)
	}
}

// bringRow updates one entry in the namespace's listing, if there is one, and in the listings in
// flight. The caller holds the copies lock.
//
// A write that has just settled counts as newer than all rows that upstream has listed, even if its
// time is earlier, because clocks differ. Of two writes, the one with the higher Origin.Seq is newer
// for readers of a listing.
func (e *Entries) bringRow(namespace string, k knownRow) (*rowChange, error) {
	change := &rowChange{stripe: e.stripe(namespace), listing: namespace}
	change.observe = func(f *ListingFill) { f.known = append(f.known, k) }
	h, listed, err := e.header(namespace, change)
	if err != nil || !listed {
		return change, err
	}
	key := record.RowKey(namespace, k.Key)
	old, kept, err := e.row(key, k.Key)
	if err != nil {
		return nil, err
	}
	if h.Complete && !kept && h.FetchedAt != 0 {
		change.absentAt = max(h.FetchedAt, e.seen.get(ID{Namespace: namespace}).confirmedAt)
	}
	if k.gone {
		if kept {
			change.write = func(tx *store.Tx) { tx.Delete(key) }
		}
		return change, nil
	}
	row, newest := k.Row, h.Newest
	if k.arrived {
		row.UpdatedAt = max(row.UpdatedAt, newest+store.Tick)
	} else if old.Origin.NewerThan(k.shownAt) {
		row = old
	} else if same := old.Origin.Shown(old.ListBytes == row.ListBytes, k.shownAt); same.Seq != 0 && !k.foreign { // guard 10.6
		// The row keeps its time, and so its place in the order of the writes. The next listing gives
		// all of them upstream's times at once.
		row.Origin, row.UpdatedAt = same, old.UpdatedAt
	}
	row.UpdatedAt = max(row.UpdatedAt, old.UpdatedAt)
	if !k.arrived {
		h.Newest = max(newest, row.UpdatedAt)
	}
	k.Row = row
	if row == old && h.Newest == newest { // guard 3.22
		return change, nil
	}
	change.write = func(tx *store.Tx) {
		e.setRow(tx, namespace, row)
		if h.Newest != newest {
			setHeader(tx, namespace, h)
		}
	}
	return change, nil
}

// row reads a row. kept says that a record exists, perhaps a damaged one.
func (e *Entries) row(key []byte, name string) (row Row, kept bool, err error) {
	kept, err = store.Get(e.store.DB(), key, func(body []byte) (err error) {
		row, err = record.DecodeRow(name, body)
		return err
	})
	if damaged, err := e.giveUp(err); damaged || err != nil {
		return Row{}, damaged, err
	}
	return row, kept, nil
}

// forgetRow removes an entry from the namespace's listing when it is unclear what upstream holds for
// it. The listing becomes incomplete, and so old that the next reader asks upstream for another.
// forgetRow also drops the listings in flight, which may be older than what readers have seen. The
// caller holds the copies lock.
func (e *Entries) forgetRow(id ID) (*rowChange, error) {
	change := &rowChange{stripe: e.stripe(id.Namespace), listing: id.Namespace}
	change.observe = func(f *ListingFill) { f.overtaken = true }
	h, listed, err := e.header(id.Namespace, change)
	if err != nil || !listed {
		return change, err
	}
	h.FetchedAt, h.Complete = 0, false // guard 7.15
	change.write = func(tx *store.Tx) {
		tx.Delete(record.RowKey(id.Namespace, id.Key))
		setHeader(tx, id.Namespace, h)
		e.seen.confirm(ID{Namespace: id.Namespace}, 0) // guard 7.16
	}
	return change, nil
}

// Forget removes the copy and the row of an entry when it is unclear what upstream holds for it. The
// caller holds the copies lock.
func (e *Entries) Forget(id ID) (fill func(*store.Tx), err error) {
	row, err := e.forgetRow(id)
	if err != nil {
		return nil, err
	}
	return func(tx *store.Tx) {
		tx.Delete(record.EntryKey(record.SettledPrefix, id))
		row.fill(tx)
	}, nil
}

// header reads the header of a listing that is about to change. A damaged header counts as no listing,
// and the change removes the listing.
func (e *Entries) header(namespace string, change *rowChange) (h record.Header, listed bool, err error) {
	h, listed, err = readHeader(e.store.DB(), namespace)
	damaged, err := e.giveUp(err)
	if err == nil && damaged {
		change.write = func(tx *store.Tx) { dropListing(tx, namespace) }
	}
	if err != nil {
		return h, false, fmt.Errorf("listing of %s: %w", namespace, err)
	}
	return h, listed && !damaged, nil
}

func (e *Entries) setRow(tx *store.Tx, namespace string, row Row) {
	key := record.RowKey(namespace, row.Key)
	value := record.EncodeRow(key, row)
	tx.Set(key, value)
	e.written.Add(int64(len(key) + len(value)))
}

func setHeader(tx *store.Tx, namespace string, h record.Header) {
	key := record.HeaderKey(namespace)
	tx.Set(key, record.EncodeHeader(key, h))
}

// dropListing removes a listing, even if its records are damaged.
func dropListing(tx *store.Tx, namespace string) {
	tx.Delete(record.HeaderKey(namespace))
	tx.DeletePrefix(record.Within(record.RowPrefix, namespace))
}
