// Package proxy answers agents: BotWire's memory API, to the byte where a client can
// see it, and the daemon's own surface under /_botwired/.
//
// It owns the order in which a read looks for its answer: in the cache, else among the
// pending writes, else in the settled copy while that is fresh, or in the listing that lacks
// the entry, else upstream, with one request for all who wait. An answer from upstream is dropped if a write came in
// between. The cache may come first, because no write is visible before the cache drops
// what the write has made old: the journal announces each change with its lock held, and
// that advances the generation of all answers made before (contract 6). A write is
// validated as BotWire would, journaled, and acknowledged.
//
// [Server] routes requests. Behind it, memory is the memory API, fetches are the
// requests upstream, surface is what is under /_botwired/, and tasks are what Close
// waits for. The package knows nothing of Pebble, of retries, or of how upstream is
// reached.
package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/dashboard"
)

// Upstream is asked for what is not known here. An error that has a method
// RetryAfter() time.Duration says that upstream cannot be asked now. If it also has a
// method Answer() (status int, body []byte), upstream has answered with that, and a
// caller for whom nothing is known here gets that answer. With waitOutOutage, a call
// waits until a short outage is over.
type Upstream interface {
	// Get returns nil without an error when upstream does not hold the entry.
	Get(ctx context.Context, id journal.ID, waitOutOutage bool) (*journal.Observation, error)
	// List returns all keys that upstream can list, and whether upstream has no more.
	List(ctx context.Context, namespace string, waitOutOutage bool) (rows []journal.Row, complete bool, err error)
	// Patience returns how long a caller to whom nothing else can be given waits for an
	// answer about an entry or, without a key, a listing. The request goes on.
	Patience(id journal.ID) time.Duration
	// TooLong returns the error for a caller who has waited so long.
	TooLong() error
}

// Flusher carries pending writes upstream.
type Flusher interface {
	// Flush returns when the writes acknowledged before the call, of one namespace or
	// with "" of all, are settled or dead, or with ctx's error and what is left.
	Flush(ctx context.Context, namespace string) (settled, dead, pending int, err error)
	// Attempts returns how often an entry's pending write was tried since an attempt last
	// went well, why the last attempt failed, and when the next is due.
	Attempts(id journal.ID) (count int, last string, next time.Time)
	// Paused returns why upstream does not let a namespace's writes in; empty if it does.
	Paused(namespace string) string
	// Waits returns why nothing of a namespace is sent now, and until when; a time of zero
	// is not known. Why is empty if the namespace waits for nothing but its linger.
	Waits(namespace string) (why string, until time.Time)
	// EntryWaits returns the same for an entry.
	EntryWaits(id journal.ID) (why string, until time.Time)
	// TryNow ends the waits of a namespace, or with "" of all, that only time would end.
	TryNow(namespace string)
	// Drop makes an entry's pending write a dead letter. A number of 0 is any. Its error is
	// [journal.ErrNotPending] if there is no such write.
	Drop(ctx context.Context, id journal.ID, seq uint64) (journal.Write, error)
	// Await has an acknowledged write sent at once and returns once it, or a newer one to
	// its entry, has settled. It returns false when ctx ends first or the write is dead.
	Await(ctx context.Context, id journal.ID, seq uint64) (settled bool)
	// WriteThrough has upstream carry a write out, journals the write then, and returns
	// whether it has settled. When the entry's turn has come, ready decides whether to go on,
	// and returns the write's If. The write's number is 0 if the journal had no room for it.
	// Errors of its own have a method WriteStatus() int.
	WriteThrough(ctx context.Context, w journal.NewWrite, ready func() (unchanged func(newest uint64) bool, err error)) (
		written journal.Write, settled bool, err error)
}

// Identity notices that time has passed without the daemon, or that its data directory is a
// copy: see [identity.Watch].
type Identity interface {
	// Stands reports whether something confirmed at a time may still be called fresh.
	Stands(confirmedAt time.Time) bool
	// Epoch returns a number that changes when what was asked before may be old.
	Epoch() uint64
	// State describes it.
	State() identity.State
}

// UpstreamState says how upstream does.
type UpstreamState struct {
	State       string    // up, degraded or down
	Since       time.Time // when that began
	Reason      string    // for people; empty if it is up
	LastSuccess time.Time // zero if there was none yet
	Concurrency api.Concurrency
}

// Quota is what a namespace may have written upstream in the present window.
type Quota struct {
	Limit, Used, Left int           // requests
	ResetsAt          time.Time     // when the window ends
	Linger            time.Duration // about how long a write waits now
	// RunsOutAt is when nothing is left at the pace of the window so far, or since when nothing
	// is; zero if the quota lasts.
	RunsOutAt time.Time
}

// Options configures a server.
type Options struct {
	Journal  *journal.Journal
	Cache    *cache.Cache
	Upstream Upstream
	Flusher  Flusher
	// Forward receives the requests that are neither the memory API's nor the daemon's own.
	// It bounds their time itself, in both directions: an answer may be a stream.
	Forward http.Handler
	// Policy says how long answers of a namespace are good.
	Policy func(namespace string) cache.Policy
	// WriteThrough says whether an acknowledgement of a namespace means that upstream has
	// the write; nil is for none.
	WriteThrough func(namespace string) bool
	// Prefetch says of which namespaces the values are fetched before anybody reads them, and
	// AssumeAbsent in which an unknown entry is answered 404 while upstream cannot be asked;
	// nil is for none.
	Prefetch, AssumeAbsent func(namespace string) bool
	// Loss notices that upstream has lost what it had confirmed; nil if nobody does at once.
	Loss Loss
	// View is what upstream holds of all entries; nil if upstream does not tell of changes. While it
	// is sound, no answer gets old (see coherence.go).
	View View
	// WatchState describes the watch that keeps View up to date; nil if there is none.
	WatchState func() WatchState
	// Exact says that WriteThrough carries a conditional write out only over the state that it is
	// based on: so its condition holds among all hosts.
	Exact bool
	// UpstreamURL and UpstreamState describe upstream in the status.
	UpstreamURL   string
	UpstreamState func() UpstreamState
	// ReadsRefused says, by namespace, why upstream does not answer reads though it is
	// there.
	ReadsRefused func() map[string]string
	// Quotas returns, by namespace, the quotas that something was used of; nil if there are
	// none.
	Quotas func() map[string]Quota
	// Writes says how many writes upstream was sent since the start, and how many needed no
	// request, as a newer one took their place; nil if nobody knows.
	Writes func() (sent, saved int64)
	// DataDir and Listen describe the daemon in the status.
	DataDir, Listen string
	// Sizes are those of Journal; nil if it has none.
	Sizes *journal.Sizes
	// Traces remembers the traces of writes for when they are sent; nil if nobody asks.
	Traces *trace.Writes
	// Tracer makes spans of requests; nil makes none.
	Tracer Tracer
	// Identity is the daemon's; nil if it never doubts it.
	Identity Identity
	// Revisions has the earlier states of entries; nil if upstream keeps none.
	Revisions Revisions
	// MCP answers what is sent to /_botwired/mcp; nil is for 404.
	MCP http.Handler
	// Version is the daemon's.
	Version string
	// Metrics are the daemon's. The server counts requests there, and shows all of them.
	Metrics *metrics.Metrics
	// Logger must not be nil. It never gets a value.
	Logger *slog.Logger
}

// Server is the HTTP handler. In the background it works only for requests, and in Run. Close
// waits for all but Run.
type Server struct {
	tasks    *tasks
	memory   *memory
	surface  *surface
	lister   *listKeeper
	news     *news
	bodies   *wire.Bodies
	callers  *callers
	tracer   Tracer
	mcp      mcpEndpoint
	forward  http.Handler
	metrics  *metrics.Metrics
	measures *measures
	logger   *slog.Logger
}

// New returns a server.
func New(opts Options) (*Server, error) {
	if opts.Traces == nil {
		opts.Traces = trace.NewWrites()
	}
	if opts.Identity == nil {
		opts.Identity = undoubted{}
	}
	counts := &measures{times: opts.Metrics.Requests}
	assets, err := dashboard.Load()
	if err != nil {
		return nil, err
	}
	running := newTasks()
	none := func(string) bool { return false }
	for _, of := range []*func(string) bool{&opts.WriteThrough, &opts.Prefetch, &opts.AssumeAbsent} {
		if *of == nil {
			*of = none
		}
	}
	m := &memory{
		journal: opts.Journal, cache: opts.Cache, upstream: opts.Upstream, flusher: opts.Flusher, identity: opts.Identity,
		coherence: &coherence{opts.View, opts.Journal}, exact: opts.Exact,
		policy: opts.Policy, writesThrough: opts.WriteThrough, passing: newPassing(), offline: &offline{opts.Journal, opts.AssumeAbsent, opts.WriteThrough},
		used: newInUse(), turns: newTurns(), traces: opts.Traces, tasks: running, revisions: opts.Revisions,
		fetches: &fetches{tasks: running, logger: opts.Logger},
	}
	m.restorer = newRestorer(m, opts.Logger)
	news := newNews(m, opts.Prefetch, opts.Metrics)
	bodies, seen := wire.NewBodies(), newCallers()
	return &Server{
		tasks: running, memory: m, surface: newSurface(opts, m, running, assets, counts, bodies, seen),
		lister: &listKeeper{
			m: m, used: m.used, prefetches: opts.Prefetch, slots: make(chan struct{}, prefetchesAtOnce), ended: make(chan ending), news: news,
		},
		news: news, bodies: bodies, callers: seen, tracer: opts.Tracer,
		mcp:     mcpEndpoint{opts.MCP, wire.NewBodies()},
		forward: opts.Forward, metrics: opts.Metrics, measures: counts, logger: opts.Logger,
	}, nil
}

// Changed must be called for each change of the journal, where it is announced.
func (s *Server) Changed(c journal.Change) { s.surface.events.changed(c) }

// Run lists the namespaces in use until ctx ends, so that their absent keys are known, and
// fetches the values of those that are set so. It keeps the last hour. With Options.View it also
// fetches what other hosts have changed.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.lister.run(ctx) })
	if s.memory.coherence.view != nil {
		g.Go(func() error { return s.news.run(ctx) })
	}
	g.Go(func() error { return s.surface.history.run(ctx) })
	return g.Wait()
}

// Resume goes on with what a person has asked an earlier process for. It is called once the
// journal is rebuilt.
func (s *Server) Resume() { s.memory.restorer.resume() }

// BeginStop has readyz say 503, so that nobody sends more callers here.
// Everybody else is answered as before.
func (s *Server) BeginStop() {
	s.surface.stopping.Store(true)
}

// EndWaits answers the callers that wait for upstream, and all that come later, with what
// is known here: a write that they prefer to see settled is pending.
func (s *Server) EndWaits() { s.tasks.endWaits() }

// Close ends the waits, and waits for the requests upstream that are under way and for
// the callers that are still here: after it, nothing touches the journal or the cache.
// Callers that come later are turned away with 503.
func (s *Server) Close() { s.tasks.close() }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{began: time.Now(), trace: trace.FromHeader(r.Header), seen: s.surface.monitor.beginHTTP(r)}
	s.serve(r.Context(), w, r.Method, r.URL.Path, c, func(w http.ResponseWriter) error { return s.route(w, r, c) })
}

// serve has handle answer a call, turns its error or its panic into an answer, and measures it.
func (s *Server) serve(
	ctx context.Context, w http.ResponseWriter, method, path string, c *call, handle func(http.ResponseWriter) error,
) {
	if c.seen != nil {
		observing := &observedWriter{ResponseWriter: w, seen: c.seen}
		defer observing.end()
		w = observing
	}
	if !s.tasks.start() {
		shuttingDown(w).Write(w)
		return
	}
	defer s.tasks.done()
	if err := recovered(s.logger, func() error { return handle(w) }); err != nil {
		c.outcome = s.fail(ctx, w, method, path, err)
	}
	s.leave(c)
}

func (s *Server) route(w http.ResponseWriter, r *http.Request, c *call) error {
	if path, ok := strings.CutPrefix(r.URL.Path+"/", surfacePrefix); ok {
		switch path = strings.TrimSuffix(path, "/"); path {
		case appendPath:
			return s.answerAppend(w, r, c)
		case undoPath:
			return s.answerUndo(w, r, c)
		case mcpPath:
			return s.mcp.answer(w, r)
		}
		return s.surface.answer(w, r, path)
	}
	if r.URL.Path == "/"+metricsPath { // where scrapers look, and upstream has nothing there
		return s.surface.answer(w, r, metricsPath)
	}
	route := wire.ParseRoute(r.URL.Path)
	switch route.Kind {
	case wire.EntryRoute:
		s.callers.note([]byte(r.UserAgent()), time.Now())
		return s.answerEntry(w, r, journal.ID{Namespace: route.Namespace, Key: route.Key}, c)
	case wire.ListRoute:
		s.callers.note([]byte(r.UserAgent()), time.Now())
		return s.answerListing(w, r, route.Namespace, c)
	case wire.Missing:
		return wire.Detail(http.StatusNotFound, "Not Found")
	case wire.Redirect:
		w.Header().Set("Location", wire.RedirectLocation(r))
		w.WriteHeader(http.StatusTemporaryRedirect)
		return nil
	}
	if dashboard.Leads(r) {
		lead(w)
		return nil
	}
	return s.passOn(w, r)
}

// passOn forwards a request that is neither the memory API's nor the daemon's own. A
// TRACE would have upstream recite the headers that the daemon adds, tokens among them,
// and neither CONNECT nor the asterisk form of OPTIONS names anything of upstream's.
func (s *Server) passOn(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace:
		return wire.MethodNotAllowed()
	case !strings.HasPrefix(r.URL.Path, "/"):
		return wire.Detail(http.StatusNotFound, "Not Found")
	case mayLeadToMemory(r.URL.Path): // guard 1.4
		return errUncertainPath
	}
	s.metrics.Forwarded.Inc()
	s.forward.ServeHTTP(w, r)
	return nil
}

// Settled must be called for each write that upstream has confirmed. A delete leaves an
// absence that upstream need not be asked about (contract 9).
func (s *Server) Settled(w journal.Write) {
	if w.Op != journal.Delete || !s.tasks.start() {
		return
	}
	defer s.tasks.done()
	// An absence that cannot be looked up is not remembered. The next read asks upstream.
	// Nothing newer can have settled: the flusher sends the entry's next write after this.
	_, _ = s.memory.rememberAbsence(w.ID, func() bool { return true })
}
