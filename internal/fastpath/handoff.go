package fastpath

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// restPatience bounds a pause within a body that the handler has left. Nearly every caller sends it at once,
	// and the connection goes on.
	restPatience = time.Second / 4
	// restTime bounds how long such a body may take to come.
	restTime = 2 * time.Second
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

	handling atomic.Bool // the handler has a request
	reading  atomic.Bool // and reads its body
	framed   atomic.Bool // the next request is known to have one framing (RFC 9112, section 6.3)
	lengths  lengthFinder
	// until ends the wait for the rest of a body that the handler has left, in Unix nanoseconds; 0
	// while there is no such body.
	until atomic.Int64

	last     atomic.Bool // the answer is the last one, and its caller may have sent more requests
	done     atomic.Bool // net/http has answered the request
	hijacked atomic.Bool // the handler has taken the connection over, for a web socket
	once     sync.Once
	over     chan struct{} // closed when nobody has more use for the connection
}

func (b *borrowed) Read(p []byte) (n int, err error) {
	n, err = b.next(p)
	b.lengths.look(p[:n])
	return n, err
}

func (b *borrowed) next(p []byte) (n int, err error) {
	switch {
	case len(b.read) > 0:
		n = copy(p, b.read)
		if b.read = b.read[n:]; len(b.read) == 0 {
			b.read = nil
		}
		return n, nil
	// guard 16.35
	case b.forGood && len(p) == 1:
		return b.Conn.Read(p) // net/http wants to know whether the caller leaves
	// guard 16.40
	case b.hijacked.Load():
		return b.Conn.Read(p)
	case b.forGood:
		return b.wait(p)
	case b.left > 0:
		n, err = b.wait(p[:min(len(p), b.left)])
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
// the connection. The owner closes it after a last answer, which must arrive before.
func (b *borrowed) Close() (err error) {
	if b.last.Load() && !b.done.Load() && !b.hijacked.Load() {
		return b.CloseWrite()
	}
	if b.forGood || !b.done.Load() {
		err = b.Conn.Close()
	}
	b.once.Do(func() { close(b.over) })
	return err
}

// wait reads bytes that net/http cannot go on without.
func (b *borrowed) wait(p []byte) (n int, err error) {
	if b.handling.Load() && !b.reading.Load() {
		// guard 16.39
		b.leaveBody() // net/http reads it out, as the handler answers without it
	}
	if until := b.until.Load(); until != 0 {
		by := time.Now().Add(restPatience)
		if last := time.Unix(0, until); last.Before(by) {
			by = last
		}
		if err := b.SetReadDeadline(by); err != nil {
			return 0, err
		}
	}
	b.owner.rest(time.Now()) // guard 16.33
	// guard 16.36
	if n, err = b.Conn.Read(p); n > 0 && !b.owner.wake() {
		return 0, net.ErrClosed
	}
	return n, err
}

// leaveBody bounds from now on how long the rest of a body is waited for.
func (b *borrowed) leaveBody() { b.until.CompareAndSwap(0, time.Now().Add(restTime).UnixNano()) }

// CloseWrite is called after net/http's last answer. The owner waits until that has arrived. A handler that has
// taken the connection over goes on reading, and closes it itself.
func (b *borrowed) CloseWrite() (err error) {
	if half, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		err = half.CloseWrite()
	}
	if !b.hijacked.Load() {
		b.once.Do(func() { close(b.over) })
	}
	return err
}

// changed hears from net/http what it does with a connection.
func changed(c net.Conn, state http.ConnState) {
	b, ok := c.(*borrowed)
	switch {
	case !ok:
	case state == http.StateHijacked:
		b.hijacked.Store(true)
	case state != http.StateIdle:
	case b.forGood:
		b.until.Store(0)
	default:
		b.done.Store(true)
	}
}

// lengthFinder finds the name of a Content-Length in what net/http reads, in a body too.
type lengthFinder struct {
	matched int // how much of the name the last bytes are
	found   atomic.Bool
}

func (f *lengthFinder) look(p []byte) {
	const name = "content-length"
	for _, c := range p {
		switch c | 0x20 { // which is a letter in lower case, and leaves "-" as it is
		case name[f.matched]:
			f.matched++
		case name[0]: // the name begins with it nowhere else
			f.matched = 1
		default:
			f.matched = 0
		}
		if f.matched == len(name) {
			f.found.Store(true)
			f.matched = 0
		}
	}
}
