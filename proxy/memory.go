package proxy

import (
	"net/http"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// memory is BotWire's memory API: GET, PUT and DELETE of entries, and LIST. read.go has
// the order of a read, entry.go and listing.go what can be read, write.go the writes, and
// conditional.go those with conditions.
type memory struct {
	journal  *journal.Journal
	cache    *cache.Cache
	upstream Upstream
	flusher  Flusher
	identity Identity
	policy   func(namespace string) cache.Policy
	// writesThrough says which namespaces write through, and passing has the writes that are
	// on their way upstream so.
	writesThrough func(namespace string) bool
	passing       *passing
	offline       *offline
	used          *inUse
	prefetches    *prefetches
	intruders     *intruders
	callers       *callers
	tasks         *tasks
	fetches       *fetches
	bodies        *wire.Bodies
	metrics       *metrics
	restorer      *restorer
}

func (m *memory) answerEntry(w http.ResponseWriter, r *http.Request, id journal.ID) error {
	switch r.Method {
	case http.MethodGet:
		return m.get(w, r, id)
	case http.MethodPut:
		return m.put(w, r, id)
	case http.MethodDelete:
		return m.delete(w, r, id)
	}
	return wire.MethodNotAllowed()
}

// answerListing answers LIST.
func (m *memory) answerListing(w http.ResponseWriter, r *http.Request, namespace string) error {
	if r.Method != http.MethodGet {
		return wire.MethodNotAllowed()
	}
	limit, refusal := wire.ParseList(r.URL.RawQuery, namespace)
	if refusal != nil {
		return refusal
	}
	d := parseDirectives(r.Header)
	found, err := m.findListing(namespace, limit, d)
	if err != nil {
		return err
	}
	a := found.answer()
	if found.freshness != cache.Fresh {
		if a, err = m.askUpstream(d, found, &listing{m, namespace, limit}); err != nil {
			return err
		}
	}
	m.metrics.lists[a.source].Inc()
	observed(w).answer(a)
	a.describe(w.Header())
	if a.item.Incomplete {
		w.Header().Set("Botwired-List", listingIncomplete)
	}
	writeJSON(w, http.StatusOK, a.item.Body)
	return nil
}

func (m *memory) get(w http.ResponseWriter, r *http.Request, id journal.ID) error {
	if refusal := wire.CheckEntry(id.Namespace, id.Key); refusal != nil {
		return refusal
	}
	c, err := parseConditions(r.Header)
	if err != nil {
		return err
	}
	d := parseDirectives(r.Header)
	found, err := m.findEntry(id, d)
	if err != nil {
		return err
	}
	return m.finishGet(w, id, d, c, found)
}

// finishGet answers a GET, given what was found here.
func (m *memory) finishGet(w http.ResponseWriter, id journal.ID, d directives, c conditions, found found) error {
	a := found.answer()
	if found.freshness != cache.Fresh {
		var err error
		if a, err = m.askUpstream(d, found, &entry{m, id, found.generation, d.noStore}); err != nil {
			return err
		}
	}
	m.metrics.reads[a.source].Inc()
	observed(w).answer(a)
	a.describe(w.Header())
	if a.item.Body == nil {
		wire.NotFound(id.Namespace, id.Key).Write(w)
		return nil
	}
	w.Header()["Etag"] = a.item.Tag[:]
	switch {
	case c.changed(a.item):
		return errNotAsMatched
	case c.unchanged(a.item):
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	writeJSON(w, http.StatusOK, a.item.Body)
	return nil
}
