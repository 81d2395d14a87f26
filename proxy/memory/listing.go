package memory

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

const maxListLimit = 1000

// lookAtList returns what is known of a namespace's listing, for a reader with a limit and directives.
func (m *Memory) lookAtList(namespace string, limit int, d Directives) (known, error) {
	m.lister.note(namespace)
	key := cache.Key{Namespace: namespace, Limit: limit}
	item, generation := m.cache.Get(key)
	k := known{item: item, generation: generation}
	m.assess(namespace, d, &k)
	if item != nil && (k.freshness == cache.Fresh || !m.view.mayRefresh(item)) {
		return k, nil
	}
	l, err := m.list(namespace, limit, generation)
	if err != nil {
		return known{}, err
	}
	if k.disk = true; l != nil {
		k.item = m.cache.Put(key, generation, l.item(limit))
	}
	m.assess(namespace, d, &k)
	return k, nil
}

// list makes a listing from the local state; nil if there is no listing of upstream's.
func (m *Memory) list(namespace string, limit int, generation cache.Generation) (*localListing, error) {
	unchanged := func() bool {
		return m.cache.Generation(cache.Key{Namespace: namespace}) == generation
	}
	if m.view.upstream == nil {
		return list(m.journal, m.exact, namespace, limit, unchanged)
	}
	from := &viewLister{Journal: m.journal, c: m.view}
	l, err := list(from, m.exact, namespace, limit, unchanged)
	if l != nil {
		l.checked = from.checked
	}
	return l, err
}

// localListing is a namespace's listing. Each reader takes as many items as its limit allows.
type localListing struct {
	namespace   string
	items       []wire.Item // newest first; all, or as many as list's limit
	complete    bool
	confirmedAt time.Time
	checked     int64 // see cache.Item.Checked
	dataLoss    bool  // the listing has entries that upstream no longer lists
}

func (l *localListing) item(limit int) cache.Item {
	items := l.items[:min(len(l.items), limit)] // guard 10.13
	item := cache.Item{
		Body:        wire.Listing{Namespace: l.namespace, Items: items}.AppendJSON(nil),
		ConfirmedAt: l.confirmedAt,
		Incomplete:  !l.complete,
		Checked:     l.checked,
	}
	if l.dataLoss {
		item.Doubt = uint8(journal.DataLoss)
	}
	return item
}

// listing is a resource: a namespace's listing, for a reader with a limit.
type listing struct {
	m         *Memory
	namespace string
	limit     int
}

func (l *listing) key() cache.Key { return cache.Key{Namespace: l.namespace, Limit: l.limit} }

// name returns a name that no entry has, because keys are not empty.
func (l *listing) name() string { return l.namespace + "/" }

// ask begins the fill before it asks upstream, so that the journal lays the writes that settle meanwhile over
// upstream's listing (contract 8).
func (l *listing) ask(ctx context.Context, waitOutOutage bool) (accept func() (fetched, error), err error) {
	asked := time.Now()
	fill := l.m.journal.BeginListing(l.namespace)
	defer func() {
		if accept == nil {
			fill.Cancel()
		}
	}()
	rows, complete, err := l.m.upstream.List(ctx, l.namespace, waitOutOutage)
	if err != nil {
		return nil, err
	}
	return func() (fetched, error) {
		defer fill.Cancel()
		return l.accept(fill, rows, complete, asked)
	}, nil
}

// accept makes the answer from the local state, once the journal has upstream's listing or a newer one.
func (l *listing) accept(fill *journal.ListingFill, rows []journal.Row, complete bool, asked time.Time) (fetched, error) {
	err := fill.Commit(rows, complete)
	overtaken := errors.Is(err, journal.ErrChanged)
	if err != nil && !overtaken {
		return fetched{}, err
	}
	generation := l.m.cache.Generation(l.key())
	now, err := l.m.list(l.namespace, maxListLimit, generation)
	if err != nil {
		return fetched{}, err
	}
	switch {
	case overtaken && (now == nil || cache.Age(now.confirmedAt, time.Now()) > time.Since(asked)):
		return fetched{}, errOvertaken
	case now == nil:
		return fetched{}, errors.New("the journal has not kept upstream's listing")
	}
	got := fetched{overtaken: overtaken}
	doubtedAt := time.Time{}
	if now.dataLoss {
		doubtedAt, got.doubt, got.overtaken = time.Now(), journal.DataLoss, false
		l.m.cache.Await()
	}
	got.item = func(k cache.Key) *cache.Item {
		item := now.item(k.Limit)
		item.DoubtedAt = doubtedAt
		return l.m.cache.Put(k, generation, item)
	}
	return got, nil
}
