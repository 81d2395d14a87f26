package fastpath

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// handoff is the listener through which net/http gets its connections.
type handoff struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHandoff(addr net.Addr) *handoff {
	return &handoff{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handoff) Addr() net.Addr { return h.addr }

// give hands a connection over; false once the listener is closed.
func (h *handoff) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// borrowed is a connection while net/http has it: for one request, or for good. net/http
// first gets the bytes that have been read already.
//
// For one request, it gets that request and no byte more, and the end of the connection
// when it comes back for the next one. While it handles the request, it reads a byte ahead
// to notice that the caller leaves.
type borrowed struct {
	net.Conn
	owner   *conn
	forGood bool

	// net/http never reads twice at a time.
	read  []byte // read from the connection and not yet by net/http
	left  int    // of the request, still to be read from the connection
	ahead []byte // what follows the request, as far as it is known

	done atomic.Bool // net/http has answered the request
	once sync.Once
	over chan struct{} // closed when net/http has no more use for the connection
}

func (b *borrowed) Read(p []byte) (n int, err error) {
	switch {
	case len(b.read) > 0:
		n = copy(p, b.read)
		if b.read = b.read[n:]; len(b.read) == 0 {
			b.read = nil
		}
		return n, nil
	case b.forGood:
		return b.Conn.Read(p)
	case b.left > 0:
		n, err = b.Conn.Read(p[:min(len(p), b.left)])
		b.left -= n
		return n, err
	case b.done.Load():
		return 0, io.EOF
	case len(b.ahead) == 0:
		n, err = b.Conn.Read(p[:min(len(p), 1)])
		b.ahead = append(b.ahead, p[:n]...)
		return n, err
	}
	return copy(p, b.ahead[:1]), nil
}

// Close closes the connection, unless net/http has answered its request and would keep
// the connection.
func (b *borrowed) Close() (err error) {
	if b.forGood || !b.done.Load() {
		err = b.Conn.Close()
	}
	b.once.Do(func() { close(b.over) })
	return err
}

// CloseWrite lets net/http wait for its answer to arrive before it closes a connection
// on which more is coming.
func (b *borrowed) CloseWrite() error {
	if half, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// changed hears from net/http what it does with a connection.
func changed(c net.Conn, state http.ConnState) {
	b, ok := c.(*borrowed)
	switch {
	case !ok:
	case state == http.StateIdle && b.forGood:
		b.owner.rest()
	case state == http.StateIdle:
		b.done.Store(true)
	case state == http.StateActive:
		b.owner.wake() // a request on a connection that was closed meanwhile gets no answer
	}
}
