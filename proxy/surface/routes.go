package surface

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/feed"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/proxy/dashboard"
	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/proxy/openapi"
)

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
		Waiters: make(waiters, cmp.Or(opts.Waiters, 1024)), importer: memory.NewImporter(m), restorer: m.Restorer(), Callers: newCallers(), Measures: counts,
		figures: &figures{counts, &diskLook{journal: opts.Journal}, opts.Cache, opts.Writes}, Events: newEvents(),
		Monitor: &Monitor{feed.New[request](feed.Options{Size: monitorKept, Readers: monitorReaders, Burst: monitorBurst})},
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
		"receipts":     {http.MethodGet, s.receipts, []string{"limit"}},
		"pending/drop": {http.MethodPost, s.dropPending, []string{"namespace", "key", "seq"}},
		"export":       {http.MethodGet, s.export, []string{"namespace"}},
		"import":       {http.MethodPost, s.takeImport, []string{"namespace"}},
		"restore":      {http.MethodPost, s.restore, []string{"namespace", "timeout", "stop"}},
		revisionsPath:  {http.MethodGet, s.listRevisions, []string{"namespace", "key"}},
		"forget":       {http.MethodPost, s.forget, []string{"namespace", "key"}},
		"purge":        {http.MethodPost, s.purge, []string{"namespace", "key", "local", "as_of", "timeout"}},
		MetricsPath:    {http.MethodGet, s.exposeMetrics, []string{anyParameters}},
		"mcp":          {http.MethodPost, s.answerMCP, nil},
		"livez":        {http.MethodGet, s.livez, []string{anyParameters}},
		"readyz":       {http.MethodGet, s.readyz, []string{anyParameters}},
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
