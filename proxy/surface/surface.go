package surface

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/dashboard"
	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/proxy/openapi"
)

// Prefix is where the daemon's own surface begins.
const Prefix = dashboard.Path

const (
	// answerTime is how long sending an answer may take when the wait for it was longer
	// than the server's own limits allow.
	answerTime = time.Minute
	// flushTimeout is how long a flush request waits by default, and maxFlushTimeout the
	// most that it can ask for.
	flushTimeout    = time.Minute
	maxFlushTimeout = time.Hour
	// defaultLimit is how many pending writes or dead letters a request lists by default,
	// and maxLimit the most that it can ask for.
	defaultLimit = 100
	maxLimit     = 10_000
)

const (
	// MetricsPath is where the metrics are, under Prefix and at the root.
	MetricsPath = "metrics"
	// AppendPath and UndoPath are where an append and an undo are, under Prefix. They are requests to the
	// memory, so the server answers them.
	AppendPath = "append"
	UndoPath   = "undo"
)

// Surface answers what is under /_botwired/.
type Surface struct {
	opts    Options
	memory  *memory.Memory
	journal *journal.Journal
	flusher memory.Flusher
	tasks   *tasks.Tasks
	bodies  *wire.Bodies
	// mcpBodies are apart from those of the memory API: the handler's own requests to that wait for
	// room while their caller has some.
	mcpBodies  *wire.Bodies
	importer   *memory.Importer
	restorer   *memory.Restorer
	callers    *callers
	measures   *measures
	figures    *figures
	history    *lastHour
	events     *Events
	monitor    *Monitor
	metrics    http.Handler
	openAPI    func() (*openapi.Document, error)
	startedAt  time.Time
	stopping   atomic.Bool
	operations map[string]operation // by path
	assets     dashboard.Assets
}

// Options configures a surface, and the memory under it.
type Options struct {
	memory.Options
	// Loss notices that upstream has lost what it had confirmed; nil if nobody does at once.
	Loss Loss
	// WatchState describes the watch that keeps View up to date; nil if there is none.
	WatchState func() WatchState
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
	// Revisions has the earlier states of entries; nil if upstream keeps none.
	Revisions Revisions
	// Version is the daemon's.
	Version string
	// MCP answers what is sent to /_botwired/mcp; nil is for 404.
	MCP http.Handler
	// Bodies bounds what the bodies of requests take together.
	Bodies *wire.Bodies
}

// Run keeps the last hour until ctx ends.
func (s *Surface) Run(ctx context.Context) error { return s.history.run(ctx) }

// BeginStop has readyz say 503, so that nobody sends more callers here.
func (s *Surface) BeginStop() { s.stopping.Store(true) }

// NoteCaller counts a request of the memory API by the User-Agent of its caller.
func (s *Surface) NoteCaller(agent []byte, at time.Time) { s.callers.note(agent, at) }

// Measure notes how long a request took. One without a verb is none of the memory API's.
func (s *Surface) Measure(v memory.Verb, o memory.Outcome, took time.Duration) {
	s.measures.observe(v, o, took)
}

// Monitor returns the monitor of requests.
func (s *Surface) Monitor() *Monitor { return s.monitor }

// Events returns the events of writes.
func (s *Surface) Events() *Events { return s.events }

// Changed takes a change of the journal.
func (s *Surface) Changed(c journal.Change) { s.events.changed(c) }

// operation is a method on a path of the surface.
type operation struct {
	method     string
	handle     func(http.ResponseWriter, *http.Request) error
	parameters []string
}

// anyParameters lets a request have parameters of its own: probes and scrapers add some.
const anyParameters = "*"

// New returns the surface of a memory that was made with the same options.
func New(opts Options, m *memory.Memory) (*Surface, error) {
	assets, err := dashboard.Load()
	if err != nil {
		return nil, err
	}
	counts := &measures{times: opts.Metrics.Requests}
	s := &Surface{
		opts: opts, memory: m, journal: opts.Journal, flusher: opts.Flusher, tasks: opts.Tasks, bodies: opts.Bodies, mcpBodies: wire.NewBodies(),
		importer: memory.NewImporter(m), restorer: m.Restorer(), callers: newCallers(), measures: counts,
		figures: &figures{counts, &diskLook{journal: opts.Journal}, opts.Cache, opts.Writes}, events: newEvents(), monitor: newMonitor(),
		metrics: opts.Metrics.Handler(), openAPI: openapi.Lazy(opts.Version), startedAt: time.Now(), assets: assets,
	}
	s.history = newLastHour(opts, s.figures)
	s.operations = map[string]operation{
		"events":       {http.MethodGet, s.followEvents, []string{"namespace", "after"}},
		"monitor":      {http.MethodGet, s.followRequests, []string{"namespace"}},
		"status":       {http.MethodGet, s.status, []string{"namespaces"}},
		"openapi.json": {http.MethodGet, s.describeHTTP, nil},
		"history":      {http.MethodGet, s.history.answer, nil},
		"entries":      {http.MethodGet, s.entries, []string{"namespace", "prefix", "after", "limit"}},
		"namespaces":   {http.MethodGet, s.listNamespaces, []string{"after", "limit", "match"}},
		"flush":        {http.MethodPost, s.flush, []string{"namespace", "timeout", "now"}},
		"pending":      {http.MethodGet, s.pending, []string{"namespace", "limit"}},
		"dead-letters": {http.MethodGet, s.deadLetters, []string{"limit", "after"}},
		"pending/drop": {http.MethodPost, s.dropPending, []string{"namespace", "key", "seq"}},
		"export":       {http.MethodGet, s.export, []string{"namespace"}},
		"import":       {http.MethodPost, s.takeImport, []string{"namespace"}},
		"restore":      {http.MethodPost, s.restore, []string{"namespace", "timeout", "stop"}},
		revisionsPath:  {http.MethodGet, s.listRevisions, []string{"namespace", "key"}},
		"forget":       {http.MethodPost, s.forget, []string{"namespace", "key"}},
		MetricsPath:    {http.MethodGet, s.exposeMetrics, []string{anyParameters}},
		"mcp":          {http.MethodPost, s.answerMCP, nil},
		"livez":        {http.MethodGet, s.livez, []string{anyParameters}},
		"readyz":       {http.MethodGet, s.readyz, []string{anyParameters}},
	}
	return s, nil
}

// Answer answers a request for a path under surfacePrefix.
func (s *Surface) Answer(w http.ResponseWriter, r *http.Request, path string) error {
	if letter, ok := strings.CutPrefix(path, "dead-letters/"); ok {
		return s.deadLetter(w, r, letter)
	}
	if seq, ok := strings.CutPrefix(path, "receipts/"); ok {
		return s.receipt(w, r, seq)
	}
	if asset := s.assets[path]; asset != nil {
		return showAsset(w, r, asset)
	}
	operation, ok := s.operations[path]
	if !ok {
		return wire.Detail(http.StatusNotFound, "Not Found")
	}
	if err := Require(r, operation.method, operation.parameters...); err != nil {
		return err
	}
	return operation.handle(w, r)
}

// showAsset answers with a file of the dashboard, whatever the parameters are. The page's own
// links to its assets need the slash that ends its path.
func showAsset(w http.ResponseWriter, r *http.Request, asset *dashboard.Asset) error {
	if err := requireMethod(r, http.MethodGet); err != nil {
		return err
	}
	if r.URL.Path+"/" == dashboard.Path {
		Lead(w)
		return nil
	}
	asset.ServeHTTP(w, r)
	return nil
}

// Lead has a browser open the dashboard. The answer depends on who asks, so nobody may keep it.
func Lead(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept, Sec-Fetch-Mode")
	h.Set("Location", dashboard.Path)
	w.WriteHeader(http.StatusFound)
}

var errUnreadableQuery = wire.Detail(http.StatusBadRequest,
	"the query cannot be read: expected name=value pairs joined by &, with % only in escapes such as %20, and no semicolon")

// Require refuses other methods and parameters.
func Require(r *http.Request, method string, parameters ...string) error {
	if err := requireMethod(r, method); err != nil {
		return err
	}
	return requireParameters(r, parameters...)
}

// requireMethod refuses other methods. HEAD is GET without the body.
func requireMethod(r *http.Request, methods ...string) error {
	if slices.Contains(methods, r.Method) || r.Method == http.MethodHead && slices.Contains(methods, http.MethodGet) {
		return nil
	}
	refusal := wire.Detail(http.StatusMethodNotAllowed, "Method Not Allowed")
	refusal.Allow = strings.Join(methods, ", ")
	return refusal
}

func requireParameters(r *http.Request, parameters ...string) error {
	if slices.Contains(parameters, anyParameters) {
		return nil
	}
	// A parameter that is not understood would count as not given: all namespaces for one.
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return errUnreadableQuery
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(parameters, name) {
			return wire.Detail(http.StatusBadRequest, fmt.Sprintf("unknown parameter %.40q: expected %s",
				name, cmp.Or(strings.Join(parameters, ", "), "none")))
		}
		if n := len(query[name]); n > 1 {
			return wire.Detail(http.StatusBadRequest, fmt.Sprintf("the parameter %s is given %d times: expected once", name, n))
		}
	}
	return nil
}

func (s *Surface) livez(w http.ResponseWriter, _ *http.Request) error {
	return writeDocument(w, http.StatusOK, map[string]string{"status": "alive"})
}

// errStopping says at readyz that the daemon is about to end.
var errStopping = wire.Detail(http.StatusServiceUnavailable,
	"not ready: botwired is stopping. It answers requests until it has flushed what is pending, or flush.drain_timeout is over.")

// readyz answers 200 when the journal could take a write now and the daemon is to stay.
func (s *Surface) readyz(w http.ResponseWriter, _ *http.Request) error {
	if err := s.journal.Err(); err != nil {
		return wire.Detail(http.StatusServiceUnavailable, "not ready: "+refusalReason(err))
	}
	if s.stopping.Load() { // guard 22.16
		return errStopping
	}
	return writeDocument(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (s *Surface) exposeMetrics(w http.ResponseWriter, r *http.Request) error {
	s.metrics.ServeHTTP(w, r)
	return nil
}

// flush answers when all writes acknowledged before are settled or dead, or when its time
// is up. With the parameter now it also tries what waits for a time.
func (s *Surface) flush(w http.ResponseWriter, r *http.Request) error {
	namespace, err := namespaceParameter(r)
	if err != nil {
		return err
	}
	timeout, err := durationParameter(r, "timeout", flushTimeout, maxFlushTimeout, "1h")
	if err != nil {
		return err
	}
	now, err := boolParameter(r, "now")
	if err != nil {
		return err
	}
	if err := Allow(w, timeout); err != nil {
		return err
	}
	if now {
		s.flusher.TryNow(namespace)
	}
	ctx, cancel := s.tasks.Patience(r.Context(), timeout)
	defer cancel()
	settled, dead, pending, err := s.flusher.Flush(ctx, namespace)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if pending > 0 || err != nil {
		return writeDocument(w, http.StatusGatewayTimeout, api.Flushed{Settled: settled, Dead: dead, Pending: pending, Waits: s.waits(namespace)})
	}
	return writeDocument(w, http.StatusOK, api.Flushed{Settled: settled, Dead: dead})
}

// Allow gives a request that may take longer than others its time.
func Allow(w http.ResponseWriter, d time.Duration) error {
	return supported(http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + answerTime)))
}

// boolParameter is true or false, and false if it is not given.
func boolParameter(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, wire.Detail(http.StatusBadRequest, fmt.Sprintf("%s=%q: expected true or false", name, text))
	}
	return value, nil
}

var errEmptyNamespace = wire.Detail(http.StatusBadRequest,
	"the parameter namespace is empty: expected the name of a namespace, or no such parameter for all namespaces")

// namespaceParameter is empty if it is not given: all namespaces.
func namespaceParameter(r *http.Request) (string, error) {
	query := r.URL.Query()
	namespace := query.Get("namespace")
	switch {
	case !query.Has("namespace"):
		return "", nil
	case namespace == "": // a script's variable that is not set
		return "", errEmptyNamespace
	}
	if refusal := wire.CheckNamespace(namespace); refusal != nil {
		return "", refusal
	}
	return namespace, nil
}

// durationParameter is a duration such as 30s, or a number of seconds. The refusal of a longer
// one than most calls that named.
func durationParameter(r *http.Request, name string, byDefault, most time.Duration, named string) (time.Duration, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return byDefault, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < 0 || d > most {
		return 0, wire.Detail(http.StatusBadRequest,
			fmt.Sprintf("%s=%q: expected a duration such as 30s, from 0 to %s", name, text, named))
	}
	return d, nil
}

func limitParameter(r *http.Request) (int, error) {
	return numberParameter(r, "limit", defaultLimit, 1, maxLimit)
}

// numberParameter is a whole number from one to another, or the default if it is not given.
func numberParameter(r *http.Request, name string, byDefault, least, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, wire.Detail(http.StatusBadRequest,
			fmt.Sprintf("%s=%q: expected a whole number from %d to %d", name, text, least, most))
	}
	return n, nil
}
