package selfhost

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/httplog"
	"github.com/botwired/botwired/internal/pipe"
)

// InProcess serves connections that never leave the process: the daemon's embedded upstream. A client
// speaks HTTP to it as to any other.
type InProcess struct {
	server   *http.Server
	listener *pipe.Listener
	done     chan struct{}
}

// ServeInProcess begins to serve; Close ends it. The client must name the host localhost.
func ServeInProcess(s *Server) *InProcess {
	p := &InProcess{
		server: &http.Server{
			Handler: s.Handler(), ReadHeaderTimeout: time.Minute, ErrorLog: httplog.New(s.log, slog.LevelDebug),
		},
		listener: pipe.Listen(),
		done:     make(chan struct{}),
	}
	go func() {
		defer close(p.done)
		_ = p.server.Serve(p.listener) // always ErrServerClosed, or net.ErrClosed
	}()
	return p
}

// Dial connects to the server.
func (p *InProcess) Dial(ctx context.Context) (net.Conn, error) { return p.listener.Dial(ctx) }

// Close cuts all connections and waits until nothing is accepted any more.
func (p *InProcess) Close() error {
	err := p.server.Close()
	<-p.done
	return err
}
