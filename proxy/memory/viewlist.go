package memory

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/journal"
)

// viewLister makes listings from the view and the journal's pending writes. The view has this host's
// confirmed writes before they settle. So a write is pending, or in the view, or both, and [list]'s
// order of reading works as for the journal's rows.
type viewLister struct {
	*journal.Journal
	c *upstreamView
	// checked is the [cache.Item] field for the rows that were read last.
	checked int64
}

// Listing returns a namespace's listing with the view's rows, newest first. Until the view has been
// read, and in a namespace with data loss, it returns the journal's listing.
func (v *viewLister) Listing(namespace string, most int) (l journal.Listing, ok bool, err error) {
	v.checked = 0
	asOf, since, caughtUp := v.c.upstream.CaughtUp()
	rows, total, known := v.c.upstream.Newest(namespace, most)
	if !known || v.c.hasDataLoss(namespace) {
		return v.Journal.Listing(namespace, most)
	}
	if caughtUp {
		v.checked = since.UnixNano()
	} else { // the view includes any later listing
		head, _, err := v.c.journal.Listings.Head(namespace)
		if err != nil {
			return journal.Listing{}, false, err
		}
		asOf = laterTime(asOf, head.FetchedAt)
	}
	return journal.Listing{Rows: rows, FetchedAt: asOf, Complete: true, Cut: total > len(rows)}, true, nil
}

// known returns what [Memory.Known] does, from the pending writes and a caught-up view. ok is false if
// the view has not caught up, or the namespace has data loss.
func (c *upstreamView) known(namespace, prefix, after string, most int) (found []journal.Known, ok bool, err error) {
	if c.upstream == nil {
		return nil, false, nil
	}
	if _, _, caughtUp := c.upstream.CaughtUp(); !caughtUp || c.hasDataLoss(namespace) {
		return nil, false, nil
	}
	wanted := func(key string) bool { return key > after && strings.HasPrefix(key, prefix) }
	pending := make(map[string]journal.Known)
	err = c.journal.VisitPending(namespace, func(p journal.Pending) { // before the rows: see list
		if wanted(p.Key) && p.Seq > pending[p.Key].Seq {
			pending[p.Key] = journal.Known{
				Key: p.Key, Pending: true, Op: p.Op, ListBytes: p.ListBytes, UpdatedAt: p.UpdatedAt, Seq: p.Seq,
			}
		}
	})
	rows, _, known := c.upstream.Newest(namespace, math.MaxInt)
	if err != nil || !known {
		return nil, false, err
	}
	for _, p := range pending {
		found = append(found, p)
	}
	for i := range rows {
		r := &rows[i]
		if _, written := pending[r.Key]; !written && wanted(r.Key) {
			found = append(found, journal.Known{
				Key: r.Key, Op: journal.Put, ListBytes: r.ListBytes, UpdatedAt: r.UpdatedAt, Seq: r.Origin.Seq,
			})
		}
	}
	slices.SortFunc(found, func(a, b journal.Known) int { return cmp.Compare(a.Key, b.Key) })
	return found[:min(most, len(found))], true, nil
}

// mayWait reports whether the journal's listing of a namespace may get old: the view answers readers,
// and the listing only serves a restart while upstream cannot be asked. The listing must be from within
// the view's span and, for prefetching, younger than the last change that the full change queue
// dropped.
func (l *listKeeper) mayWait(namespace string, head journal.Listing) bool {
	if l.m.view.upstream == nil {
		return false
	}
	_, since, caughtUp := l.m.view.upstream.CaughtUp()
	missed := time.Unix(0, l.m.changes.overflowed.Load())
	return caughtUp && !head.FetchedAt.Before(since) && (!l.prefetches(namespace) || head.FetchedAt.After(missed))
}

// Known returns known entries of a namespace in key order: at most most of the entries whose keys
// follow after and begin with prefix. It asks a caught-up view, or else the journal. complete says that
// upstream has no keys in the namespace beyond the known ones.
func (m *Memory) Known(namespace, prefix, after string, most int) (found []journal.Known, complete bool, err error) {
	found, ok, err := m.view.known(namespace, prefix, after, most)
	if err != nil || ok {
		return found, ok, err
	}
	found, listed, err := m.journal.Keys.Known(namespace, prefix, after, most)
	return found, listed.Complete, err
}
