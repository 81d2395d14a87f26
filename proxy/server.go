// Package proxy answers agents over HTTP: BotWire's memory API, to the byte where a client can
// see it, and the daemon's own surface under /_botwired/.
//
// [Server] routes requests, checks names, values and conditions, and writes what proxy/memory decides: for
// net/http, and for the simple requests of internal/fastpath. surface answers the requests under /_botwired/.
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

// Options configures a server. Tasks and Bodies are the server's to set.
type Options struct {
	surface.Options
	// Forward handles the requests that are neither for the memory API nor for the daemon itself. It
	// sets its own timeouts for reading and writing: an answer may be a stream.
	Forward http.Handler
	// Tracer makes spans of requests; nil makes none.
	Tracer Tracer
}

// Server is the HTTP handler. In the background it works only for requests, and in Run. Close
// waits for all but Run.
type Server struct {
	tasks   *tasks.Tasks
	memory  *memory.Memory
	surface *surface.Surface
	bodies  *wire.Bodies
	tracer  Tracer
	forward http.Handler
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
		forward: opts.Forward, metrics: opts.Metrics, logger: opts.Logger,
	}, nil
}

// Run does the memory's work in the background until ctx ends, and keeps the last hour.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.memory.Run(ctx) })
	g.Go(func() error { return s.surface.Run(ctx) })
	return g.Wait()
}

// Resume continues what a person has asked an earlier process for. Call it once the journal is rebuilt.
func (s *Server) Resume() { s.memory.Restorer().Resume() }

// BeginStop makes readyz answer 503, so that nobody sends more callers here. All other requests are
// answered as before.
func (s *Server) BeginStop() {
	s.surface.BeginStop()
}

// EndWaits answers the callers that wait for upstream, and all that come later, with what
// is known here: a write that they prefer to see settled is pending.
func (s *Server) EndWaits() { s.tasks.EndWaits() }

// Close ends the waits, and waits for the requests upstream that are under way and for
// the callers that are still here: after it, nothing touches the journal or the cache.
// Callers that come later are turned away with 503.
func (s *Server) Close() { s.tasks.Close() }

// Settled must be called for each write that upstream has confirmed.
func (s *Server) Settled(w journal.Write) { s.memory.Settled(w) }

// Changed must be called for each change that the journal announces.
func (s *Server) Changed(c journal.Change) { s.surface.Events.Changed(c) }

// VersionSeen must be called for each version of an entry that the view takes in: see
// [memory.VersionSeen]. Followers of the events are told of another host's versions.
func (s *Server) VersionSeen(id journal.ID, own bool) {
	s.memory.VersionSeen(id, own)
	s.surface.VersionSeen(id, own)
}

// Sending must be called right before the request of a pending write leaves, but not for a write that a
// newer one has superseded.
func (s *Server) Sending(w journal.Write) { s.surface.Sending(w) }

// UpstreamChanged must be called with each new state of upstream's.
func (s *Server) UpstreamChanged(now api.UpstreamState) { s.surface.UpstreamChanged(now) }

// DiskUsage returns how much of the disk the journal uses. It may be a few seconds old.
func (s *Server) DiskUsage() (journal.DiskUsage, error) { return s.surface.DiskUsage() }
