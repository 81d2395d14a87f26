package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// listingIncomplete marks the answer to a LIST that may lack keys: upstream holds
// more than it can list (contract 10).
const listingIncomplete = "incomplete"

// listing answers LIST: upstream's listing with the pending set laid over it.
func (s *Server) listing(w http.ResponseWriter, r *http.Request, namespace string) error {
	if r.Method != http.MethodGet {
		return wire.MethodNotAllowed()
	}
	limit, refusal := wire.ParseList(r.URL.RawQuery, namespace)
	if refusal != nil {
		return refusal
	}
	key := cache.Key{Namespace: namespace, Limit: limit}
	a, err := s.read(r.Context(), key, parseDirectives(r.Header), listSource{s, namespace, limit})
	if err != nil {
		return err
	}
	s.metrics.lists[a.source].Inc()
	a.describe(w.Header())
	if a.item.Incomplete {
		w.Header().Set("Botwired-List", listingIncomplete)
	}
	writeJSON(w, http.StatusOK, a.item.Body)
	return nil
}

// listSource reads one namespace's listing.
type listSource struct {
	s         *Server
	namespace string
	limit     int
}

// flight does not name the limit: upstream is always asked for all that it lists. A
// key cannot be empty, so no entry's flight has this name.
func (l listSource) flight() string { return l.namespace + "/" }

func (l listSource) local() (*cache.Item, error) {
	// The pending set comes first: a write that settles in between is in both.
	var pending []journal.Pending
	err := l.s.opts.Journal.VisitPending(l.namespace, func(p journal.Pending) { pending = append(pending, p) })
	if err != nil {
		return nil, err
	}
	settled, ok, err := l.s.opts.Journal.Listing(l.namespace)
	if err != nil || !ok {
		return nil, err
	}
	items := overlay(settled.Rows, pending)
	incomplete := !settled.Complete && len(items) < l.limit
	items = items[:min(len(items), l.limit)]
	return &cache.Item{
		Body:        wire.Listing{Namespace: l.namespace, Items: items}.AppendJSON(nil),
		ConfirmedAt: settled.FetchedAt,
		Incomplete:  incomplete,
	}, nil
}

// load takes upstream's listing into the journal, which lays over it what settled
// since upstream was asked (contract 8). What comes of it is known here then, and made
// by each reader for itself: they may want different limits.
func (l listSource) load(ctx context.Context, patient bool, seal func()) (*cache.Item, error) {
	fill := l.s.opts.Journal.BeginListing(l.namespace)
	defer fill.Cancel()
	rows, complete, err := l.s.opts.Upstream.List(ctx, l.namespace, patient)
	if err != nil {
		return nil, err
	}
	seal()
	err = fill.Commit(rows, complete)
	if errors.Is(err, journal.ErrChanged) {
		return nil, errOvertaken // what is known here is newer
	}
	return nil, err
}

// overlay lays pending writes over settled rows: tombstones hide, puts replace and
// add. The newest come first. Pending writes are newer than all that is settled,
// whatever their times say: upstream's times are those of arrival, and an entry that
// was written here before another may have reached upstream after the other was
// written. It is shown with no older time than theirs.
func overlay(rows []journal.Row, pending []journal.Pending) []wire.Item {
	type line struct {
		wire.Item
		seq uint64
	}
	byKey := make(map[string]*journal.Pending, len(pending))
	for i := range pending {
		byKey[pending[i].Key] = &pending[i]
	}
	lines := make([]line, 0, len(rows)+len(pending))
	for _, row := range rows {
		p := byKey[row.Key]
		if p == nil {
			lines = append(lines, line{wire.Item{Key: row.Key, Bytes: row.ListBytes, UpdatedAt: row.UpdatedAt}, 0})
			continue
		}
		p.UpdatedAt = max(p.UpdatedAt, row.UpdatedAt)
	}
	for _, p := range pending {
		if p.Op == journal.Put {
			lines = append(lines, line{wire.Item{Key: p.Key, Bytes: p.ListBytes, UpdatedAt: p.UpdatedAt}, p.Seq})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.seq, a.seq), cmp.Compare(b.UpdatedAt, a.UpdatedAt))
	})
	items := make([]wire.Item, len(lines))
	newest := 0.0
	for i := len(lines) - 1; i >= 0; i-- {
		newest = max(newest, lines[i].UpdatedAt)
		items[i] = lines[i].Item
		items[i].UpdatedAt = newest
	}
	return items
}
