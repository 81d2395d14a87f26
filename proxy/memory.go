package proxy

import (
	"net/http"

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
	intruders     *intruders
	callers       *callers
	tasks         *tasks
	fetches       *fetches
	bodies        *wire.Bodies
	metrics       *metrics
	restorer      *restorer
	traces        *trace.Writes
	tracer        Tracer
}

func (m *memory) answerEntry(w http.ResponseWriter, r *http.Request, id journal.ID, c *call) error {
	c.enter(m, verbOf(r.Method), id.Namespace)
	switch c.verb {
	case getEntry:
		return m.get(w, r, id, c)
	case putEntry:
		return m.put(w, r, id, c)
	case deleteEntry:
		return m.delete(w, r, id, c)
	}
	return wire.MethodNotAllowed()
}

// answerListing answers LIST.
func (m *memory) answerListing(w http.ResponseWriter, r *http.Request, namespace string, c *call) error {
	if r.Method != http.MethodGet {
		return wire.MethodNotAllowed()
	}
	c.enter(m, listKeys, namespace)
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
		if a, err = m.askUpstream(d, found, c.of(&listing{m, namespace, limit})); err != nil {
			return err
		}
	}
	c.outcome = outcome(a.source)
	observed(w).answer(a)
	a.describe(w.Header())
	if a.item.Incomplete { // guard 10.14
		w.Header().Set("Botwired-List", listingIncomplete)
	}
	writeJSON(w, http.StatusOK, a.item.Body)
	return nil
}

func (m *memory) get(w http.ResponseWriter, r *http.Request, id journal.ID, c *call) error {
	if refusal := wire.CheckEntry(id.Namespace, id.Key); refusal != nil {
		return refusal
	}
	wanted, err := parseConditions(r.Header)
	if err != nil {
		return err
	}
	d := parseDirectives(r.Header)
	found, err := m.findEntry(id, d)
	if err != nil {
		return err
	}
	return m.finishGet(w, id, d, wanted, found, c)
}

// finishGet answers a GET, given what was found here.
func (m *memory) finishGet(w http.ResponseWriter, id journal.ID, d directives, wanted conditions, found found, c *call) error {
	a := found.answer()
	if found.freshness != cache.Fresh {
		var err error
		if a, err = m.askUpstream(d, found, c.of(newEntry(m, id, found.generation, d.noStore))); err != nil {
			return err
		}
	}
	c.outcome = outcome(a.source)
	observed(w).answer(a)
	a.describe(w.Header())
	if a.item.Body == nil {
		wire.NotFound(id.Namespace, id.Key).Write(w)
		return nil
	}
	w.Header()["Etag"] = a.item.Tag[:]
	switch {
	case wanted.changed(a.item):
		return errNotAsMatched
	case wanted.unchanged(a.item):
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	writeJSON(w, http.StatusOK, a.item.Body)
	return nil
}
