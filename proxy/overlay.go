package proxy

import (
	"cmp"
	"slices"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// lister is what a listing is made from: the journal.
type lister interface {
	Listing(namespace string) (l journal.Listing, ok bool, err error)
	// VisitPending may visit an entry that is written meanwhile with both writes, the
	// newer one later.
	VisitPending(namespace string, visit func(journal.Pending)) error
	Lookup(id journal.ID) (journal.State, error)
}

// list lays a namespace's pending writes over its settled rows, and returns up to limit
// items; nil if there is no settled listing.
//
// A row may be shown only if what is pending of its entry was looked up before the row
// was read: else a tombstone that settled in between would be in neither, and a deleted
// key would come back. So the rows are read again after the visit, unless nothing has
// changed since before the first reading. An entry whose put settles during all this is
// in the second reading, or the visit has seen its put.
func list(from lister, namespace string, limit int, unchanged func() bool) (*localListing, error) {
	settled, ok, err := from.Listing(namespace)
	if err != nil || !ok {
		return nil, err
	}
	pending, err := visitPending(from, namespace, limit, settled.Rows)
	if err != nil {
		return nil, err
	}
	if !unchanged() {
		if settled, ok, err = readAgain(from, namespace, pending); err != nil || !ok {
			return nil, err
		}
	}
	return &localListing{
		namespace: namespace, items: pending.over(settled.Rows, limit),
		complete: settled.Complete, confirmedAt: settled.FetchedAt,
	}, nil
}

// visitPending visits a namespace's pending writes. Entries that are deleted during the
// visit may leave fewer puts than the limit: then it needs more to spare.
func visitPending(from lister, namespace string, limit int, rows []journal.Row) (*overlay, error) {
	for keep := limit + sparePuts; ; keep *= 2 {
		o := newOverlay(rows, keep)
		if err := from.VisitPending(namespace, o.visit); err != nil {
			return nil, err
		}
		if o.sort(); !o.lacks(limit) {
			return o, nil
		}
	}
}

// readAgain reads the rows after a visit, and looks up the entries that were not among
// them before.
func readAgain(from lister, namespace string, o *overlay) (settled journal.Listing, ok bool, err error) {
	settled, ok, err = from.Listing(namespace)
	if err != nil || !ok {
		return settled, ok, err
	}
	added := false
	for _, row := range settled.Rows {
		if _, known := o.newest[row.Key]; known {
			continue
		}
		state, err := from.Lookup(journal.ID{Namespace: namespace, Key: row.Key})
		if err != nil {
			return settled, false, err
		}
		o.newest[row.Key] = newestWrite{state.Seq, state.Kind == journal.Value}
		added = true
	}
	if !added {
		return settled, true, nil
	}
	return from.Listing(namespace)
}

// sparePuts is how many puts more than the limit a visit keeps, for those whose entries
// are deleted during the visit.
const sparePuts = 100

// overlay is what a listing needs to know of the pending writes. It keeps little,
// however many there are: the newest puts, and of each settled row the newest write.
type overlay struct {
	keep   int
	newest map[string]newestWrite // by key, of the entries with a settled row

	recent []journal.Pending // the newest puts, and what was visited since the last sort
	oldest uint64            // puts of a lower number have been dropped; 0 if none was
	floor  float64           // the newest time of a dropped put
}

// newestWrite is an entry's newest pending write; seq is 0 if it has none.
type newestWrite struct {
	seq   uint64
	isPut bool
}

func newOverlay(rows []journal.Row, keep int) *overlay {
	o := &overlay{keep: keep, newest: make(map[string]newestWrite, len(rows))}
	for _, row := range rows {
		o.newest[row.Key] = newestWrite{}
	}
	return o
}

// visit takes note of a pending write.
func (o *overlay) visit(p journal.Pending) {
	if past, ok := o.newest[p.Key]; ok && p.Seq > past.seq {
		o.newest[p.Key] = newestWrite{p.Seq, p.Op == journal.Put}
	}
	if p.Seq < o.oldest {
		o.drop(p)
		return
	}
	if o.recent = append(o.recent, p); len(o.recent) >= 2*o.keep {
		o.sort()
	}
}

func (o *overlay) drop(p journal.Pending) {
	if p.Op == journal.Put {
		o.floor = max(o.floor, p.UpdatedAt)
	}
}

// sort leaves the newest puts, newest first, one for each entry.
func (o *overlay) sort() {
	slices.SortFunc(o.recent, func(a, b journal.Pending) int { return cmp.Compare(b.Seq, a.Seq) })
	seen := make(map[string]bool, len(o.recent))
	kept := o.recent[:0]
	for _, p := range o.recent {
		switch {
		case seen[p.Key]:
		case p.Op != journal.Put:
			seen[p.Key] = true
		case len(kept) == o.keep:
			o.drop(p)
			o.oldest = kept[o.keep-1].Seq
		default:
			seen[p.Key] = true
			kept = append(kept, p)
		}
	}
	o.recent = kept
}

// lacks reports whether a listing needs puts that have been dropped.
func (o *overlay) lacks(limit int) bool { return o.oldest > 0 && len(o.recent) < limit }

// over lays the pending writes over settled rows: tombstones hide, puts replace and add.
// The newest come first. Pending writes are newer than all that is settled, whatever
// their times say: upstream's times are those of arrival, and an entry that was written
// here before another may have reached upstream after the other was written. It is shown
// with no older time than theirs.
func (o *overlay) over(rows []journal.Row, limit int) []wire.Item {
	written := make(map[string]*journal.Pending, len(o.recent))
	for i := range o.recent {
		written[o.recent[i].Key] = &o.recent[i]
	}
	var left []journal.Row
	floor := 0.0
	for _, row := range rows {
		past, known := o.newest[row.Key]
		switch p := written[row.Key]; {
		case p != nil:
			p.UpdatedAt = max(p.UpdatedAt, row.UpdatedAt)
		case past.isPut: // it has been dropped, and the row is older still
			floor = max(floor, row.UpdatedAt)
		case known && past.seq == 0:
			left = append(left, row)
			floor = max(floor, row.UpdatedAt)
		}
	}
	slices.SortStableFunc(left, func(a, b journal.Row) int { return cmp.Compare(b.UpdatedAt, a.UpdatedAt) })
	items := make([]wire.Item, 0, min(limit, len(o.recent)+len(left)))
	for _, p := range o.recent[:min(limit, len(o.recent))] {
		items = append(items, wire.Item{Key: p.Key, Bytes: p.ListBytes, UpdatedAt: p.UpdatedAt})
	}
	for _, p := range o.recent[len(items):] {
		o.drop(p)
	}
	newest := max(floor, o.floor)
	for i := range slices.Backward(items) {
		newest = max(newest, items[i].UpdatedAt)
		items[i].UpdatedAt = newest
	}
	for _, row := range left[:min(limit-len(items), len(left))] {
		items = append(items, wire.Item{Key: row.Key, Bytes: row.ListBytes, UpdatedAt: row.UpdatedAt})
	}
	return items
}
