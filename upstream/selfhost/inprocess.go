package selfhost

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// InProcess serves connections that never leave the process: the daemon's embedded upstream. A client
// speaks HTTP to it as to any other.
type InProcess struct {
	server   *http.Server
	listener *pipeListener
	done     chan struct{}
}

// ServeInProcess begins to serve; Close ends it. The client must name the host localhost.
func ServeInProcess(s *Server) *InProcess {
	p := &InProcess{
		server:   &http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Minute},
		listener: &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})},
		done:     make(chan struct{}),
	}
	go func() {
		defer close(p.done)
		_ = p.server.Serve(p.listener) // always ErrServerClosed, or net.ErrClosed
	}()
	return p
}

// Dial connects to the server.
func (p *InProcess) Dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.listener.conns <- far:
		return near, nil
	case <-p.listener.closed:
		return nil, errors.Join(net.ErrClosed, near.Close(), far.Close())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), near.Close(), far.Close())
	}
}

// Close cuts all connections and waits until nothing is accepted any more.
func (p *InProcess) Close() error {
	err := p.server.Close()
	<-p.done
	return err
}

// pipeListener accepts what Dial hands it.
type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "in process" }
