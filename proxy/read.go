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
	fromUpstream               // upstream was asked: nothing was known here
	fromExpired                // upstream was asked: what was known here was too old
	fromDemand                 // upstream was asked: the caller wanted it so
	sources                    // their number
)

// told is how each source is told of: in Cache-Status, whose values all answers share,
// and in the metrics.
var told = [sources]struct {
	header []string
	name   string
}{
	fromCache:    {[]string{"botwired; hit"}, "hit"},
	fromPending:  {[]string{"botwired; hit; detail=pending"}, "pending"},
	fromStale:    {[]string{"botwired; hit; detail=stale-while-revalidate"}, "stale"},
	fromFallback: {[]string{"botwired; hit; detail=stale-if-error"}, "fallback"},
	fromUpstream: {[]string{"botwired; fwd=miss"}, "miss"},
	fromExpired:  {[]string{"botwired; fwd=stale"}, "expired"},
	fromDemand:   {[]string{"botwired; fwd=request"}, "demanded"},
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
	h["Cache-Status"] = told[a.source].header
	if seconds, ok := a.ageHeader(); ok {
		h["Age"] = []string{strconv.FormatInt(seconds, 10)}
	}
}

// ageHeader is the Age to be told, which says that upstream was not asked for this answer
// (RFC 9111, section 5.1).
func (a answer) ageHeader() (seconds int64, ok bool) {
	return int64(min(a.age, maxAge) / time.Second), a.source < fromUpstream && !a.item.ConfirmedAt.IsZero()
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
	// load asks upstream and takes the answer into the journal, calling seal just
	// before. It returns the answer, or nil if that is now known here; errOvertaken if
	// upstream's answer was overtaken by a write.
	load(ctx context.Context, patient bool, seal func()) (*cache.Item, error)
	// flight names what is being asked for, among all origins.
	flight() string
}

// read answers from what is known here while that is good enough, and else asks
// upstream. What a write overtook is looked at again: pending it is the newest, and
// settled since the request came it is as good as asking upstream, whatever the
// policy and the caller say. So a busy entry cannot keep a reader going round.
func (s *Server) read(ctx context.Context, key cache.Key, d directives, from origin) (answer, error) {
	began, overtaken := time.Now(), false
	for {
		item, err := s.known(key, from)
		if err != nil {
			return answer{}, err
		}
		a, freshness := s.judge(key, d, item)
		switch {
		case freshness == cache.Fresh, overtaken && item != nil && a.age <= time.Since(began):
			return a, nil
		case freshness == cache.Stale:
			s.revalidate(from)
			a.source = fromStale
			return a, nil
		case d.onlyIfCached:
			return answer{}, errNotCached
		}
		loaded, err := s.askFor(ctx, key, from, freshness)
		switch {
		case errors.Is(err, errOvertaken):
			overtaken = true
			continue
		case err != nil && freshness == cache.Fallback && ctx.Err() == nil && isNoAnswer(err):
			a.source = fromFallback
			return a, nil
		case err != nil:
			return answer{}, err
		}
		return answer{item: loaded, source: d.asked(item)}, nil
	}
}

// asked says why upstream was asked, item being what was known here.
func (d directives) asked(item *cache.Item) source {
	switch {
	case item == nil:
		return fromUpstream
	case d.noCache, d.maxAge >= 0:
		return fromDemand
	}
	return fromExpired
}

// isNoAnswer reports whether an error says that upstream gave no answer, and not that
// something is wrong here.
func isNoAnswer(err error) bool {
	return isUnavailable(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
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
func (s *Server) askFor(ctx context.Context, key cache.Key, from origin, freshness cache.Freshness) (*cache.Item, error) {
	patient := freshness != cache.Fallback
	if !patient {
		// A request that others have waited for in vain is not waited for again.
		left := fallbackAfter - s.underWayFor(from)
		if left <= 0 {
			return nil, context.DeadlineExceeded
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	item, err := s.ask(ctx, from, patient)
	if item == nil && err == nil {
		return s.known(key, from)
	}
	return item, err
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
