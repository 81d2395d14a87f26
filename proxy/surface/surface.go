// Package surface answers the requests under /_botwired/: the daemon's state, its pending writes and dead
// letters, the streams of events and requests, export and import, restorations, earlier versions, the
// metrics, the MCP endpoint and the dashboard.
//
// It is built on proxy/memory and the journal, and answers with the documents of package api. It owns only
// the state that no other package needs: the callers, the last hour, and the figures since the start. An
// append and an undo are requests to the memory, so package proxy answers them.
package surface

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/feed"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/dashboard"
	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/proxy/openapi"
)

// Prefix begins the paths of the daemon's own API.
const Prefix = dashboard.Path

const (
	// answerTime bounds the sending of an answer whose preparation took longer than the server's own limits
	// allow.
	answerTime      = time.Minute
	flushTimeout    = time.Minute
	maxFlushTimeout = time.Hour
	defaultLimit    = 100
	maxLimit        = 10_000
)

const (
	// MetricsPath is the path of the metrics, under Prefix and at the root.
	MetricsPath = "metrics"
	// AppendPath is the path of an append, under Prefix. An append is a request to the memory, so the server
	// answers it.
	AppendPath = "append"
	// UndoPath is the path of an undo, under Prefix. The server answers an undo, too.
	UndoPath = "undo"
	// RewindPath is the path of an undo of a namespace, under Prefix.
	RewindPath = "undo/namespace"
)

// Surface answers the requests under /_botwired/.
type Surface struct {
	opts    Options
	memory  *memory.Memory
	journal *journal.Journal
	flusher memory.Flusher
	tasks   *tasks.Tasks
	bodies  *wire.Bodies
	// mcpBodies are separate from the memory API's bodies. An MCP request keeps its room here while the
	// requests that its handler makes wait for room in bodies: in one pool, they could block each other.
	mcpBodies *wire.Bodies
	// Waiters bounds the requests that wait for long, of the memory API too.
	Waiters    waiters
	importer   *memory.Importer
	Callers    *Callers
	Measures   *Measures
	figures    *figures
	history    *lastHour
	Events     *Events  // of writes
	Monitor    *Monitor // of requests
	AgentState *AgentState
	metrics    http.Handler
	openAPI    func() (*openapi.Document, error)
	startedAt  time.Time
	stopping   atomic.Bool
	operations map[string]operation // by path
	assets     dashboard.Assets
}

// Options configures a surface and its memory.
type Options struct {
	memory.Options
	// Watch keeps View up to date; nil if there is no View.
	Watch Watch
	// UpstreamURL and UpstreamState describe upstream in the status, without the watch.
	UpstreamURL   string
	UpstreamState func() api.UpstreamState
	// ReadsRefused returns, by namespace, why upstream refuses reads although it is up.
	ReadsRefused func() map[string]string
	// Sealed reports whether a namespace is sealed, and NotOpened returns, by sealed namespace, what upstream
	// has shown since the start that was refused. Both are nil if no namespace is sealed.
	Sealed    func(namespace string) bool
	NotOpened func() map[string]string
	// Quotas returns, by namespace, the quotas in use; nil if there are none.
	Quotas func() map[string]api.Quota
	// Writes returns how many writes were sent upstream since the start, and how many needed no request
	// because a newer one superseded them; nil if unknown.
	Writes func() (sent, saved int64)
	// DataDir and Listen describe the daemon in the status.
	DataDir, Listen string
	// MaxBytes returns about how much a namespace may hold upstream; 0 if nobody knows. It may be nil.
	MaxBytes func(namespace string) int64
	// PurgeVersions removes the versions that upstream keeps of the deleted entries of a namespace, or of
	// one. Its errors are like those of Revisions. It is nil if upstream keeps none.
	PurgeVersions func(ctx context.Context, of journal.ID) error
	// Version is the daemon's version.
	Version string
	// MCP answers requests to /_botwired/mcp; nil answers 404.
	MCP http.Handler
	// Bodies bounds the memory that the request bodies take together.
	Bodies *wire.Bodies
	// Waiters bounds how many requests wait for long at a time; 0 means 1024.
	Waiters int
}

// Run records the last hour, and keeps what agents learn of their memory up to date, until ctx ends.
func (s *Surface) Run(ctx context.Context) error { return s.history.run(ctx, s.AgentState.tick) }

// BeginStop makes readyz answer 503, so that no more callers are sent here.
func (s *Surface) BeginStop() { s.stopping.Store(true) }

type operation struct {
	method     string
	handle     func(http.ResponseWriter, *http.Request, *Parameters) error
	parameters []string
}

// New returns the surface of a memory made with the same options.
func New(opts Options, m *memory.Memory) (*Surface, error) {
	assets, err := dashboard.Load()
	if err != nil {
		return nil, err
	}
	counts := &Measures{times: opts.Metrics.Requests}
	s := &Surface{
		opts: opts, memory: m, journal: opts.Journal, flusher: opts.Flusher, tasks: opts.Tasks, bodies: opts.Bodies, mcpBodies: wire.NewBodies(),
		Waiters: make(waiters, cmp.Or(opts.Waiters, 1024)), importer: memory.NewImporter(m), Callers: newCallers(), Measures: counts,
		figures: &figures{counts, &diskLook{journal: opts.Journal}, opts.Cache, opts.Writes}, Events: newEvents(),
		Monitor: &Monitor{feed.New[api.AnsweredRequest](feed.Options{Size: monitorKept, Readers: monitorReaders, Burst: monitorBurst})},
		metrics: opts.Metrics.Handler(), openAPI: openapi.Lazy(opts.Version), startedAt: time.Now(), assets: assets,
	}
	s.history, s.AgentState = newLastHour(opts, s.figures), &AgentState{look: func() *agentTexts { return s.look(time.Now()).agentTexts() }}
	// The journal may keep what the first answer has to say.
	s.AgentState.change() // guard 9.109
	s.operations = map[string]operation{
		"events":         {http.MethodGet, s.followEvents, []string{"namespace", "after"}},
		"monitor":        {http.MethodGet, s.followRequests, []string{"namespace"}},
		"status":         {http.MethodGet, s.status, []string{"namespaces"}},
		"openapi.json":   {http.MethodGet, s.describeHTTP, nil},
		"history":        {http.MethodGet, s.history.answer, nil},
		"entries":        {http.MethodGet, s.entries, []string{"namespace", "prefix", "after", "limit"}},
		"namespaces":     {http.MethodGet, s.listNamespaces, []string{"after", "limit", "match"}},
		"flush":          {http.MethodPost, s.flush, []string{"namespace", "timeout", "now"}},
		"pending":        {http.MethodGet, s.pending, []string{"namespace", "limit"}},
		"dead-letters":   {http.MethodGet, s.deadLetters, []string{"limit", "after"}},
		"receipts":       {http.MethodGet, s.receipts, []string{"limit"}},
		"pending/drop":   {http.MethodPost, s.dropPending, []string{"namespace", "key", "seq"}},
		"export":         {http.MethodGet, s.export, []string{"namespace"}},
		"import":         {http.MethodPost, s.takeImport, []string{"namespace"}},
		"restore":        {http.MethodPost, s.restore, []string{"namespace", "key", "timeout"}},
		"revisions":      {http.MethodGet, s.listRevisions, []string{"namespace", "key", "to"}},
		"revisions/lost": {http.MethodGet, s.listLost, []string{"namespace", "limit", "after"}},
		"forget":         {http.MethodPost, s.forget, []string{"namespace", "key"}},
		"purge":          {http.MethodPost, s.purge, []string{"namespace", "key", "local", "as_of", "timeout"}},
		MetricsPath:      {http.MethodGet, s.exposeMetrics, []string{anyParameters}},
		"mcp":            {http.MethodPost, s.answerMCP, nil},
		"livez":          {http.MethodGet, s.livez, []string{anyParameters}},
		"readyz":         {http.MethodGet, s.readyz, []string{anyParameters}},
	}
	return s, nil
}

// Answer answers a request under Prefix. path is the part after Prefix.
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
	p := Require(r, operation.method, operation.parameters...)
	if p.Err != nil {
		return p.Err
	}
	return operation.handle(w, r, p)
}

// showAsset answers with a file of the dashboard. It allows any parameters. The page's links to its assets
// need the final slash of its path.
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

// Lead redirects a browser to the dashboard. The answer depends on the caller, so it must not be cached.
func Lead(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept, Sec-Fetch-Mode")
	h.Set("Location", dashboard.Path)
	w.WriteHeader(http.StatusFound)
}
