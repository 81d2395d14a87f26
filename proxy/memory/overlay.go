package memory

import (
	"cmp"
	"slices"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

type lister interface {
	Listing(namespace string, most int) (l journal.Listing, ok bool, err error)
	// VisitPending may visit an entry that is written meanwhile twice, with the newer write later.
	VisitPending(namespace string, visit func(journal.Pending)) error
	Lookup(id journal.ID) (journal.State, error)
}

// list lays a namespace's pending writes over its settled rows, and returns up to limit items; nil if there
// is no settled listing. With timed, the rows have the times of the writes, as an exact upstream keeps them;
// else the times of arrival.
//
// A row may be shown only if the entry's pending write was looked up before the row was read. Otherwise a
// tombstone that settled in between would be in neither, and a deleted key would come back. So list reads the
// rows again after the visit, unless nothing has changed since before the first reading. A put that settles
// meanwhile is in the second reading, or the visit has seen it.
func list(from lister, timed bool, namespace string, limit int, unchanged func() bool) (*localListing, error) {
	most := maxListLimit + sparePuts
	if timed {
		most = limit + sparePuts
	}
	for ; ; most *= 2 {
		l, cut, err := listNewest(from, timed, namespace, limit, most, unchanged)
		if err != nil || l == nil || !cut || len(l.items) >= limit { // guard 10.17
			return l, err
		}
	}
}

// listNewest lists like list, but reads only the newest rows, up to most, because there may be many.
// cut says that it left rows out. The listing may then be too short, because pending writes may hide
// some rows.
func listNewest(from lister, timed bool, namespace string, limit, most int, unchanged func() bool) (l *localListing, cut bool, err error) {
	settled, ok, err := from.Listing(namespace, most)
	if err != nil || !ok { // guard 9.3
		return nil, false, err
	}
	pending, err := visitPending(from, namespace, limit, settled.Rows)
	if err != nil {
		return nil, false, err
	}
	if !unchanged() { // guard 6.4
		if settled, ok, err = readAgain(from, namespace, most, pending); err != nil || !ok {
			return nil, false, err
		}
		// guard 10.11
		if pending.lacks(limit) { // too many of the overlay's puts have settled and were deleted meanwhile
			return listNewest(from, timed, namespace, limit, most, unchanged)
		}
	}
	items := pending.over
	if timed {
		items = pending.overTimed
	}
	return &localListing{
		namespace: namespace, items: items(settled.Rows, limit),
		complete: settled.Complete, confirmedAt: settled.FetchedAt, dataLoss: settled.Suspect,
	}, settled.Cut, nil
}

// visitPending visits a namespace's pending writes. If deletes during the visit leave fewer puts than
// the limit, it visits them again and keeps more puts.
func visitPending(from lister, namespace string, limit int, rows []journal.Row) (*overlay, error) {
	for keep := limit + sparePuts; ; keep *= 2 {
		o := newOverlay(rows, keep)
		if err := from.VisitPending(namespace, o.visit); err != nil {
			return nil, err
		}
		if o.sort(); !o.lacks(limit) { // guard 10.10
			return o, nil
		}
	}
}

// readAgain reads the rows after a visit, and looks up the entries that are new among them.
func readAgain(from lister, namespace string, most int, o *overlay) (settled journal.Listing, ok bool, err error) {
	settled, ok, err = from.Listing(namespace, most)
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
		o.newest[row.Key] = newestWrite{}
		if state.Seq != 0 {
			o.visit(pendingOf(row.Key, &state)) // guard 10.21
		}
		added = true
	}
	if !added {
		return settled, true, nil
	}
	o.sort()
	return from.Listing(namespace, most) // guard 6.5
}

// pendingOf returns the pending write in a state. The visit may have missed it if the entry was written again
// behind the visit.
func pendingOf(key string, state *journal.State) journal.Pending {
	op := journal.Delete
	if state.Kind == journal.Value {
		op = journal.Put
	}
	return journal.Pending{
		ID: journal.ID{Key: key}, Seq: state.Seq, Op: op, ListBytes: state.ListBytes, UpdatedAt: state.UpdatedAt,
	}
}

// sparePuts is how many puts a visit keeps beyond the limit, in case entries are deleted during the visit.
const sparePuts = 100

// overlay holds the pending writes that a listing needs: the newest puts, and the newest write to each
// settled row. It stays small however many writes are pending.
type overlay struct {
	keep   int
	newest map[string]newestWrite // by key, for entries with a settled row

	recent []journal.Pending // the newest puts, and all writes visited since the last sort
	oldest uint64            // puts with lower numbers have been dropped; 0 if none
	floor  float64           // the newest time of a dropped put
}

// newestWrite is an entry's newest pending write. seq is 0 if there is none.
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

// visit records a pending write.
func (o *overlay) visit(p journal.Pending) {
	if past, ok := o.newest[p.Key]; ok && p.Seq > past.seq {
		o.newest[p.Key] = newestWrite{p.Seq, p.Op == journal.Put}
	}
	if p.Seq < o.oldest {
		o.drop(p)
		return
	}
	if o.recent = append(o.recent, p); len(o.recent) >= 2*o.keep { // guard 10.12
		o.sort()
	}
}

func (o *overlay) drop(p journal.Pending) {
	if p.Op == journal.Put {
		o.floor = max(o.floor, p.UpdatedAt)
	}
}

// sort sorts the recent puts, newest first. It keeps the newest put of each entry, and at most keep of them.
func (o *overlay) sort() {
	slices.SortFunc(o.recent, func(a, b journal.Pending) int { return cmp.Compare(b.Seq, a.Seq) })
	seen := make(map[string]bool, len(o.recent))
	kept := o.recent[:0]
	for _, p := range o.recent {
		switch {
		case seen[p.Key]: // guard 10.9
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

// lacks reports whether a listing needs puts that were dropped.
func (o *overlay) lacks(limit int) bool { return o.oldest > 0 && len(o.recent) < limit }

// over lays the pending writes over settled rows: tombstones hide rows, and puts replace or add them.
//
// The writes of this journal keep their order, pending or settled, even if upstream received them in another
// order. A pending write counts as newer than all rows of other writers, even those with later times. Upstream's
// times are times of arrival: an entry written here first may have arrived after another's write. The time
// shown for a write is never older than the times of the rows below it.
func (o *overlay) over(rows []journal.Row, limit int) []wire.Item {
	written := make(map[string]*journal.Pending, len(o.recent))
	for i := range o.recent {
		written[o.recent[i].Key] = &o.recent[i]
	}
	lines := make([]line, 0, len(o.recent)+len(rows))
	floor := o.floor
	for _, row := range rows {
		past, known := o.newest[row.Key]
		switch p := written[row.Key]; {
		case p != nil:
			p.UpdatedAt = max(p.UpdatedAt, row.UpdatedAt)
		case past.isPut: // the key's put was dropped, and the row is even older
			floor = max(floor, row.UpdatedAt)
		case known && past.seq == 0: // guard 10.1
			lines = append(lines, line{row.Origin.Seq, row})
			if row.Origin.Seq == 0 {
				floor = max(floor, row.UpdatedAt)
			}
		}
	}
	for _, p := range o.recent {
		at := max(p.UpdatedAt, floor) // guard 10.8
		lines = append(lines, line{p.Seq, journal.Row{Key: p.Key, ListBytes: p.ListBytes, UpdatedAt: at}})
	}
	return newestFirst(lines, limit)
}

// overTimed lays the pending writes over settled rows, for an upstream that orders versions by the
// times of the writes: a pending write has the time, and so the place, that it will have upstream.
func (o *overlay) overTimed(rows []journal.Row, limit int) []wire.Item {
	lines := make([]line, 0, len(o.recent)+len(rows))
	for _, row := range rows {
		if past, known := o.newest[row.Key]; known && past.seq == 0 {
			lines = append(lines, line{0, row})
		}
	}
	for _, p := range o.recent {
		lines = append(lines, line{0, journal.Row{Key: p.Key, ListBytes: p.ListBytes, UpdatedAt: p.UpdatedAt}})
	}
	return newestFirst(lines, limit)
}

// line is a line of a listing. seq is the number of this journal's write; 0 for another writer's, and
// where times alone decide.
type line struct {
	seq uint64
	journal.Row
}

func newestFirst(lines []line, limit int) []wire.Item {
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.seq, b.seq) })
	newest := 0.0
	for i := range lines {
		if l := &lines[i]; l.seq != 0 {
			newest = max(newest, l.UpdatedAt)
			l.UpdatedAt = newest // guard 10.3
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.UpdatedAt, a.UpdatedAt), cmp.Compare(b.seq, a.seq)) // guard 10.2
	})
	lines = lines[:min(limit, len(lines))]
	items := make([]wire.Item, len(lines))
	for i, l := range lines {
		items[i] = wire.Item{Key: l.Key, Bytes: l.ListBytes, UpdatedAt: l.UpdatedAt}
	}
	return items
}
