// Package proxy answers agents over HTTP: BotWire's memory API, identical to BotWire wherever a client can
// tell, and the daemon's own API under /_botwired/.
//
// [Server] routes requests, checks names, values and conditions, and writes the results of proxy/memory. It
// serves net/http, and the simple requests of internal/fastpath. Package surface answers the requests under
// /_botwired/.
package proxy

import (
	"context"
	"log/slog"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
	"github.com/botwired/botwired/proxy/surface"
)

// Options configures a server. New sets Tasks and Bodies.
type Options struct {
	surface.Options
	// Forward handles the requests that are neither for the memory API nor for the daemon. It sets its own
	// timeouts for reading and writing, because an answer may be a stream.
	Forward http.Handler
	// Tracer makes spans of requests; nil for none.
	Tracer Tracer
}

// Server is the HTTP handler. It works in the background only for requests and in Run. Close waits for
// everything but Run.
type Server struct {
	tasks   *tasks.Tasks
	memory  *memory.Memory
	surface *surface.Surface
	bodies  *wire.Bodies
	tracer  Tracer
	forward http.Handler
	seals   bool // a namespace is sealed
	metrics *metrics.Metrics
	logger  *slog.Logger
}

// New returns a server.
func New(opts Options) (*Server, error) {
	opts.Tasks, opts.Bodies = tasks.New(), wire.NewBodies()
	m := memory.New(opts.Options.Options)
	shown, err := surface.New(opts.Options, m)
	if err != nil {
		return nil, err
	}
	return &Server{
		tasks: opts.Tasks, memory: m, surface: shown, bodies: opts.Bodies, tracer: opts.Tracer,
		forward: opts.Forward, seals: opts.Sealed != nil, metrics: opts.Metrics, logger: opts.Logger,
	}, nil
}

// Run does the memory's background work and records the last hour until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.memory.Run(ctx) })
	g.Go(func() error { return s.surface.Run(ctx) })
	return g.Wait()
}

// BeginStop makes readyz answer 503, so that no more callers are sent here. Other requests are answered as
// before.
func (s *Server) BeginStop() {
	s.surface.BeginStop()
}

// EndWaits ends the waits for upstream, now and from now on. Callers get the local state, and a write that
// they prefer to see settled stays pending.
func (s *Server) EndWaits() { s.tasks.EndWaits() }

// Close ends the waits, and waits for the requests upstream in flight and for the remaining callers.
// After Close, nothing touches the journal or the cache. Later callers get a 503.
func (s *Server) Close() { s.tasks.Close() }

// Settled must be called for each write that upstream has confirmed.
func (s *Server) Settled(w journal.Write) { s.memory.Settled(w) }

// Changed must be called for each change that the journal announces.
func (s *Server) Changed(c journal.Change) { s.surface.Changed(c) }

// VersionSeen must be called for each version of an entry once the view has it: see
// [memory.Memory.VersionSeen]. It also sends other hosts' versions to followers of the events.
func (s *Server) VersionSeen(id journal.ID, own bool) {
	s.memory.VersionSeen(id, own)
	s.surface.VersionSeen(id, own)
}

// Sending must be called right before a pending write's request leaves, but not for a superseded write.
func (s *Server) Sending(w journal.Write) { s.surface.Sending(w) }

// UpstreamChanged must be called with each new state of upstream, also if only Sick has changed.
func (s *Server) UpstreamChanged(now api.UpstreamState) { s.surface.UpstreamChanged(now) }

// DiskUsage returns the journal's disk usage. It may be a few seconds old.
func (s *Server) DiskUsage() (journal.DiskUsage, error) { return s.surface.DiskUsage() }

// Status returns what the metrics show of the status.
func (s *Server) Status() *api.Status { return s.surface.Status() }
