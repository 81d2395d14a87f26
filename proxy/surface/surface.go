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
	// Sizes are the journal's sizes; nil if it has none.
	Sizes *journal.Sizes
	// Revisions returns the states of an entry that upstream keeps, the present one first. Seq is only in
	// this daemon's. An error has a method RetryAfter() time.Duration if upstream cannot be asked now. It is
	// nil if upstream keeps none.
	Revisions func(ctx context.Context, id journal.ID) ([]api.Revision, error)
	// PurgeVersions removes the versions that upstream keeps of the deleted entries of a namespace, or of
	// one. Its errors are like those of Revisions. It is nil if upstream keeps none.
	PurgeVersions func(ctx context.Context, of journal.ID) error
	// Host is the name under which this daemon writes; empty if upstream does not tell hosts apart.
	Host string
	// Version is the daemon's version.
	Version string
	// MCP answers requests to /_botwired/mcp; nil answers 404.
	MCP http.Handler
	// Bodies bounds the memory that the request bodies take together.
	Bodies *wire.Bodies
	// Waiters bounds how many requests wait for long at a time; 0 means 1024.
	Waiters int
}

// Run records the last hour until ctx ends.
func (s *Surface) Run(ctx context.Context) error { return s.history.run(ctx) }

// BeginStop makes readyz answer 503, so that no more callers are sent here.
func (s *Surface) BeginStop() { s.stopping.Store(true) }
