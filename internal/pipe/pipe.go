// Package pipe is a network inside the process. The embedded upstream and the daemon's MCP use it, and fastpath
// hands connections to net/http by it. Tests in virtual time use it because they can wait for pipes but not for
// sockets. It imports nothing of the project.
package pipe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// Listener accepts the connections that Dial makes, or Hand gets. Its methods may be called concurrently.
type Listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Listen returns a listener; Close ends it.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the listener: it waits for Accept. Its errors are [net.ErrClosed] and ctx's.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	if err := l.Hand(ctx, far); err != nil {
		return nil, errors.Join(err, near.Close(), far.Close())
	}
	return near, nil
}

// Hand hands a connection to the listener: it waits for Accept. Its errors are those of Dial.
func (l *Listener) Hand(ctx context.Context, conn net.Conn) error {
	select {
	case l.conns <- conn:
		return nil
	case <-l.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Accept waits for the next connection. Its only error is [net.ErrClosed].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial. Connections stay open. It may be called again.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Serve lets a server answer the connections in the background. The returned function closes the server and
// its connections, and returns once no more are accepted.
func (l *Listener) Serve(server *http.Server) (end func() error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // always ErrServerClosed, or net.ErrClosed
	}()
	return func() error {
		err := errors.Join(server.Close(), l.Close())
		<-done
		return err
	}
}

// Addr returns the same address for all listeners.
func (l *Listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "in process" }
