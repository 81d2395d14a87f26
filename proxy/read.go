package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// fallbackAfter is how long a read waits for upstream when an old answer is at hand
// that may be given if upstream cannot be asked. The request upstream goes on.
const fallbackAfter = time.Second

// errOvertaken says that a write came in while upstream was asked: look again.
var errOvertaken = errors.New("overtaken by a write")

// errNotCached refuses to ask upstream for a caller that forbade it.
var errNotCached = wire.Detail(http.StatusGatewayTimeout, "not cached, and the request says only-if-cached")

// source says how an answer was come by, for Cache-Status (RFC 9211).
type source uint8

const (
	fromCache    source = iota // known here and fresh
	fromPending                // a write that upstream has not confirmed
	fromStale                  // known here, and asked for anew in the background
	fromFallback               // known here, and upstream cannot be asked
	fromUpstream               // upstream was asked
)

// cacheStatus holds the header's values, shared by all answers.
var cacheStatus = [...][]string{
	fromCache:    {"botwired; hit"},
	fromPending:  {"botwired; hit; detail=pending"},
	fromStale:    {"botwired; hit; detail=stale-while-revalidate"},
	fromFallback: {"botwired; hit; detail=stale-if-error"},
	fromUpstream: {"botwired; fwd=miss"},
}

// answer is an item and how it was come by.
type answer struct {
	item   *cache.Item
	source source
	age    time.Duration
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, id journal.ID) error {
	if refusal := wire.CheckEntry(id.Namespace, id.Key); refusal != nil {
		return refusal
	}
	a, err := s.read(r.Context(), entryKey(id), parseDirectives(r.Header), entrySource{s, id})
	if err != nil {
		return err
	}
	s.metrics.reads[a.source].Inc()
	a.describe(w.Header())
	if a.item.Body == nil {
		wire.NotFound(id.Namespace, id.Key).Write(w)
		return nil
	}
	writeJSON(w, http.StatusOK, a.item.Body)
	return nil
}

func (a answer) describe(h http.Header) {
	h["Cache-Status"] = cacheStatus[a.source]
	if !a.item.ConfirmedAt.IsZero() {
		h["Age"] = []string{strconv.FormatInt(int64(min(a.age, maxAge)/time.Second), 10)}
	}
}

// maxAge is the largest age that is put in a header (RFC 9111, section 1.2.2).
const maxAge = time.Second << 31

func entryKey(id journal.ID) cache.Key {
	return cache.Key{Namespace: id.Namespace, Key: id.Key}
}

// origin is what can be read: an entry or a listing.
type origin interface {
	// local makes an answer of what is known here; nil if nothing is.
	local() (*cache.Item, error)
	// load asks upstream, takes the answer into the journal, and returns it;
	// errOvertaken if it was overtaken by a write. A nil item says that local has the
	// answer now, which is then each reader's own. Else seal is called before the
	// answer is made: who begins later does not join any more.
	load(ctx context.Context, patient bool, seal func()) (*cache.Item, error)
	// flight names what is being asked for, among all origins.
	flight() string
}

// read answers from what is known here while that is good enough, and else asks
// upstream.
func (s *Server) read(ctx context.Context, key cache.Key, d directives, from origin) (answer, error) {
	for {
		item, err := s.known(key, from)
		if err != nil {
			return answer{}, err
		}
		a, freshness := s.judge(key, d, item)
		switch {
		case freshness == cache.Fresh:
			return a, nil
		case freshness == cache.Stale:
			s.revalidate(from)
			a.source = fromStale
			return a, nil
		case d.onlyIfCached:
			return answer{}, errNotCached
		}
		loaded, err := s.askFor(ctx, from, freshness)
		if err == nil && loaded == nil {
			loaded, err = from.local()
		}
		switch {
		case errors.Is(err, errOvertaken):
			continue
		case err != nil && freshness == cache.Fallback && ctx.Err() == nil:
			a.source = fromFallback
			return a, nil
		case err != nil:
			return answer{}, err
		}
		return answer{item: loaded, source: fromUpstream}, nil
	}
}

// known returns what is known here, nil if nothing is, and leaves it in the cache. The
// generation is taken first: if anything changes meanwhile, what is cached is void.
func (s *Server) known(key cache.Key, from origin) (*cache.Item, error) {
	if item, ok := s.opts.Cache.Get(key); ok {
		return item, nil
	}
	generation := s.opts.Cache.Generation(key)
	item, err := from.local()
	if err != nil || item == nil {
		return nil, err
	}
	return s.opts.Cache.Put(key, generation, *item), nil
}

func (s *Server) judge(key cache.Key, d directives, item *cache.Item) (answer, cache.Freshness) {
	if item == nil {
		return answer{}, cache.Worthless
	}
	freshness, age := d.judge(s.opts.Policy(key.Namespace), item, time.Now())
	a := answer{item: item, age: age}
	if item.ConfirmedAt.IsZero() {
		a.source = fromPending
	}
	return a, freshness
}

// askFor asks upstream for a reader. One that has an old answer to fall back on is
// not kept waiting by an outage; one that has none waits a short one out.
func (s *Server) askFor(ctx context.Context, from origin, freshness cache.Freshness) (*cache.Item, error) {
	if freshness != cache.Fallback {
		return s.ask(ctx, from, true)
	}
	ctx, cancel := context.WithTimeout(ctx, fallbackAfter)
	defer cancel()
	return s.ask(ctx, from, false)
}

// ask joins the request upstream that is under way for the same thing, or begins it.
// The request does not depend on any one caller: when a caller goes, it goes on.
func (s *Server) ask(ctx context.Context, from origin, patient bool) (*cache.Item, error) {
	select {
	case r := <-s.begin(from, patient):
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*cache.Item), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
