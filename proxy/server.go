// Package proxy answers agents: BotWire's memory API, to the byte where a client can
// see it, and the daemon's own surface under /_botwired/.
//
// It owns the order in which things are looked at. A read is answered from the cache,
// else from the pending set, else from the settled copy while that is fresh, else by
// one request upstream for all who wait, whose answer is dropped if a write came in
// between. The cache may come first because no write is visible before it is void
// there: the journal tells of each with its lock held, and that advances the
// generation of all that was made before (contract 6). A write is validated as BotWire would, journaled, and
// acknowledged. The proxy knows nothing of Pebble, of retries, or of how upstream is
// reached.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// ownPrefix is where the daemon's own surface begins.
const ownPrefix = "/_botwired/"

// Upstream is asked what is not known here. An error that has a method
// RetryAfter() time.Duration says that upstream cannot be asked now. If it also has a
// method Answer() (status int, body []byte), upstream has answered with that, and a
// caller for whom nothing is known here is given it. A patient call waits out a short
// outage.
type Upstream interface {
	// Get returns nil without an error when upstream does not hold the entry.
	Get(ctx context.Context, id journal.ID, patient bool) (*journal.Observation, error)
	// List returns all keys that upstream can list, and whether those are all.
	List(ctx context.Context, namespace string, patient bool) (rows []journal.Row, complete bool, err error)
}

// Flusher carries pending writes upstream.
type Flusher interface {
	// Flush returns when the writes acknowledged before the call, of one namespace or
	// with "" of all, are settled or dead, or with ctx's error and what is left.
	Flush(ctx context.Context, namespace string) (settled, dead, pending int, err error)
	// Attempts says how often an entry's pending write was tried since it last went
	// well, why the last attempt failed, and when the next is due.
	Attempts(id journal.ID) (count int, last string, next time.Time)
	// Paused says why a namespace's writes are not let in; empty if they are.
	Paused(namespace string) string
	// Await hurries an acknowledged write and returns once it, or a newer one to its
	// entry, has settled; false when ctx ends first or the write is dead.
	Await(ctx context.Context, id journal.ID, seq uint64) (settled bool)
}

// Options configures a server.
type Options struct {
	Journal  *journal.Journal
	Cache    *cache.Cache
	Upstream Upstream
	Flusher  Flusher
	// Forward receives what is neither the memory API nor the daemon's own.
	Forward http.Handler
	// Policy says how long answers of a namespace are good.
	Policy func(namespace string) cache.Policy
	// UpstreamURL and UpstreamFailing describe upstream in the status.
	UpstreamURL     string
	UpstreamFailing func() (failing bool, reason string)
	// ReadsRefused says, by namespace, why upstream does not answer reads though it is
	// there.
	ReadsRefused func() map[string]string
	// Version is the daemon's.
	Version string
	// Registry receives the metrics.
	Registry *prometheus.Registry
	// Logger must not be nil. It never gets a value.
	Logger *slog.Logger
}

// Server is the HTTP handler. It does its background work only for requests, and
// Close waits for both.
type Server struct {
	opts    Options
	metrics *metrics
	bodies  *wire.Bodies

	flights singleflight.Group
	started sync.Map // flight name → time.Time, of those under way
	// detached makes the context of work that must outlive the request that began it.
	detached func() context.Context
	cancel   context.CancelFunc

	mu         sync.Mutex // guards closed, so that nothing is added while Close waits
	closed     bool
	background sync.WaitGroup
}

// New returns a server; it is an error to register its metrics twice.
func New(opts Options) (*Server, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		opts:     opts,
		bodies:   wire.NewBodies(),
		detached: func() context.Context { return ctx },
		cancel:   cancel,
	}
	var err error
	if s.metrics, err = newMetrics(opts); err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

// Close ends the requests upstream that are under way, and waits for them and for the
// callers that are still here: after it, nothing touches the journal or the cache.
// Callers that come later are turned away with 503. Whoever closes has cut the
// connections of callers that might wait for long.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.background.Wait()
}

// enter registers a caller or work that Close has to wait for; false after Close.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.background.Add(1)
	return true
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		shuttingDown(w).Write(w)
		return
	}
	defer s.background.Done()
	if err := s.route(w, r); err != nil {
		s.fail(w, r, err)
	}
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) (err error) {
	defer s.survive(&err)
	if path, ok := strings.CutPrefix(r.URL.Path+"/", ownPrefix); ok {
		return s.own(w, r, strings.TrimSuffix(path, "/"))
	}
	route := wire.ParseRoute(r.URL.Path)
	switch route.Kind {
	case wire.EntryRoute:
		return s.entry(w, r, journal.ID{Namespace: route.Namespace, Key: route.Key})
	case wire.ListRoute:
		return s.listing(w, r, route.Namespace)
	case wire.Missing:
		return wire.Detail(http.StatusNotFound, "Not Found")
	case wire.Redirect:
		w.Header().Set("Location", wire.RedirectLocation(r))
		w.WriteHeader(http.StatusTemporaryRedirect)
		return nil
	}
	return s.forward(w, r)
}

// forward passes on what is neither the memory API nor the daemon's own. A TRACE
// would have upstream recite the headers that the daemon adds, tokens among them, and
// neither CONNECT nor the asterisk form of OPTIONS names anything of upstream's.
func (s *Server) forward(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace:
		return wire.MethodNotAllowed()
	case !strings.HasPrefix(r.URL.Path, "/"):
		return wire.Detail(http.StatusNotFound, "Not Found")
	}
	s.metrics.forwarded.Inc()
	lift := http.NewResponseController(w)
	// What is passed on may be a stream; the forwarder bounds it.
	if err := errors.Join(lift.SetReadDeadline(time.Time{}), lift.SetWriteDeadline(time.Time{})); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return err
	}
	s.opts.Forward.ServeHTTP(w, r)
	return nil
}

func (s *Server) entry(w http.ResponseWriter, r *http.Request, id journal.ID) error {
	switch r.Method {
	case http.MethodGet:
		return s.get(w, r, id)
	case http.MethodPut:
		return s.put(w, r, id)
	case http.MethodDelete:
		return s.delete(w, r, id)
	}
	return wire.MethodNotAllowed()
}
