package proxy

import (
	"context"
	"errors"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// memory is BotWire's memory API: GET, PUT and DELETE of entries, and LIST. read.go has
// the order of a read, entry.go and listing.go what can be read, write.go the writes, and
// conditional.go those with conditions.
type memory struct {
	journal   *journal.Journal
	cache     *cache.Cache
	upstream  Upstream
	flusher   Flusher
	identity  Identity
	coherence *coherence
	exact     bool // upstream carries a write out only over the state that it is based on
	policy    func(namespace string) cache.Policy
	// writesThrough says which namespaces write through, and passing has the writes that are
	// on their way upstream so.
	writesThrough func(namespace string) bool
	passing       *passing
	offline       *offline
	used          *inUse
	tasks         *tasks
	fetches       *fetches
	turns         *turns // of appends
	restorer      *restorer
	traces        *trace.Writes
	revisions     Revisions
}

// ErrWaits refuses a request that is to be answered at once: it has to wait for upstream.
var ErrWaits = errors.New("the request has to wait for upstream")

// Do carries a request out. A result may come with an error: that of a GET whose condition does not
// hold.
func (m *memory) Do(ctx context.Context, q *Request) (Result, error) {
	switch q.Verb {
	case GetEntry:
		return m.get(q)
	case PutEntry:
		return m.write(ctx, q, newPut(q.ID, q.Value), q.Conditions)
	case DeleteEntry:
		return m.write(ctx, q, journal.NewWrite{ID: q.ID, Op: journal.Delete}, q.Conditions)
	case ListKeys:
		return m.listKeys(q)
	}
	return Result{}, wire.MethodNotAllowed()
}

func (m *memory) get(q *Request) (Result, error) {
	found, err := m.findEntry(q.ID, q.Directives)
	if err != nil {
		return Result{}, err
	}
	a := found.answer()
	if found.freshness != cache.Fresh {
		if q.AtOnce {
			return Result{}, ErrWaits
		}
		if a, err = m.askUpstream(q.Directives, found, inTrace(q.Trace, newEntry(m, q.ID, found.generation, q.noStore))); err != nil {
			return Result{}, err
		}
	}
	switch {
	case a.item.Body == nil:
		return a.result(statusNotFound, wire.NotFound(q.ID.Namespace, q.ID.Key).Body), nil
	case q.changed(a.item):
		return a.result(statusPreconditionFailed, nil), errNotAsMatched
	case q.unchanged(a.item):
		return a.result(statusNotModified, nil), nil
	}
	return a.result(statusOK, a.item.Body), nil
}

func (m *memory) listKeys(q *Request) (Result, error) {
	found, err := m.findListing(q.ID.Namespace, q.Limit, q.Directives)
	if err != nil {
		return Result{}, err
	}
	a := found.answer()
	if found.freshness != cache.Fresh {
		if a, err = m.askUpstream(q.Directives, found, inTrace(q.Trace, &listing{m, q.ID.Namespace, q.Limit})); err != nil {
			return Result{}, err
		}
	}
	return a.result(statusOK, a.item.Body), nil
}
