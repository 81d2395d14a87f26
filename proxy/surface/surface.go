package surface

import (
	"context"
	"net/http"
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
	answerTime      = time.Minute
	flushTimeout    = time.Minute
	maxFlushTimeout = time.Hour
	defaultLimit    = 100
	maxLimit        = 10_000
)

const (
	// MetricsPath is where the metrics are, under Prefix and at the root.
	MetricsPath = "metrics"
	// AppendPath is where an append is, under Prefix. It is a request to the memory, so the server answers it.
	AppendPath = "append"
	// UndoPath is where an undo is, as an append.
	UndoPath = "undo"
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
	Callers    *Callers
	Measures   *Measures
	figures    *figures
	history    *lastHour
	Events     *Events  // of writes
	Monitor    *Monitor // of requests
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
	WatchState func() api.WatchState
	// UpstreamURL and UpstreamState describe upstream in the status, but for the watch.
	UpstreamURL   string
	UpstreamState func() api.UpstreamState
	// ReadsRefused says, by namespace, why upstream does not answer reads though it is
	// there.
	ReadsRefused func() map[string]string
	// Quotas returns, by namespace, the quotas that something was used of; nil if there are
	// none.
	Quotas func() map[string]api.Quota
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
