// Package selfhost is BotWire's memory service itself, for people who keep their data on their own
// machines. It serves the same API over SQLite, in the table layout of BotWire's own open-source
// server, so an existing database file opens without conversion. The daemon runs it as its embedded
// upstream.
//
// A write is answered once SQLite has synced it (WAL, synchronous=FULL). Writes are made one at a time,
// each with a later updated_at than the one before. So a list is always in the order of the writes. A
// cancelled request ends at once, but a write that has begun is completed.
//
// The handler admits only requests that name the listener itself and come from no foreign page: see
// package guard. It never answers with a CORS header.
package selfhost

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/guard"
	"github.com/botwired/botwired/internal/httplog"
	"github.com/botwired/botwired/internal/pipe"
	"github.com/botwired/botwired/internal/wire"
)

// Options say which database to serve, and how.
type Options struct {
	// Path is the database file. If it does not exist, it is created, readable by its owner only; its
	// folder must exist.
	Path string
	// Latency is how much longer an operation takes: half passes before the operation, and half after.
	Latency time.Duration
	// Version appears in the Server header.
	Version string
	// Guard says which requests are admitted.
	Guard guard.Options
	// Logger receives failures of the database; nil discards them.
	Logger *slog.Logger
}

// Server serves one database.
type Server struct {
	store   *store
	latency time.Duration
	version string
	log     *slog.Logger
	handler http.Handler
	bodies  *wire.Bodies
}

// Open opens or creates the database. Its errors name the file: [ErrNotDatabase] for a file that is no
// database, and [ErrLayout] for a database with another layout. It modifies neither.
func Open(ctx context.Context, opts Options) (*Server, error) {
	store, err := openStore(ctx, opts.Path)
	if err != nil {
		return nil, err
	}
	s := &Server{store: store, latency: opts.Latency, version: opts.Version, log: opts.Logger, bodies: wire.NewBodies()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.handler = guard.New(opts.Guard, http.HandlerFunc(s.serve))
	return s, nil
}

// Scrub makes the database's files free of what was deleted and overwritten. Errors: SQLite's, and if
// another process reads the database.
func (s *Server) Scrub(ctx context.Context) error { return s.store.Scrub(ctx) }

// Handler serves /memory/…, /health and /stats/memory; everything else is 404.
func (s *Server) Handler() http.Handler { return s.handler }

// ServeInProcess starts to serve in-process connections, for the daemon's embedded upstream. A client
// uses HTTP as with any other server, and names the host localhost. end cuts all connections.
func (s *Server) ServeInProcess() (dial func(context.Context) (net.Conn, error), end func() error) {
	listener := pipe.Listen()
	return listener.Dial, listener.Serve(&http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: time.Minute, ErrorLog: httplog.New(s.log, slog.LevelDebug),
	})
}

// Close waits for the requests in progress and closes the database. Later requests are answered 503.
func (s *Server) Close() error { return s.store.Close() }
