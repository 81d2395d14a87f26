package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/botwired/botwired/internal/pipe"
)

const (
	// insideConns is how many connections inside the process stay open for the next request,
	// for insideIdle.
	insideConns = 16
	insideIdle  = time.Minute
)

// inside is the daemon's HTTP for its own parts, over connections within the process. The guard
// stands in front of those who use them.
type inside struct {
	transport *http.Transport
	listener  *pipe.Listener
	server    *http.Server
	served    chan error
}

func newInside(logger *slog.Logger) *inside {
	listener := pipe.Listen()
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.Dial(ctx) },
		MaxIdleConnsPerHost: insideConns, IdleConnTimeout: insideIdle, DisableCompression: true,
	}
	return &inside{
		transport: transport, listener: listener, server: newHTTPServer(nil, logger), served: make(chan error, 1),
	}
}

// serve has a handler answer in the background.
func (in *inside) serve(handler http.Handler) {
	in.server.Handler = handler
	go func() { in.served <- in.server.Serve(in.listener) }()
}

// close cuts the requests under way off.
func (in *inside) close() error {
	err := errors.Join(in.server.Close(), in.listener.Close())
	in.transport.CloseIdleConnections()
	if served := <-in.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
