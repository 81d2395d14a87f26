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
	// restPatience bounds a pause within a body that the handler has not read to the end. Nearly every caller
	// sends the body at once, and can keep the connection.
	restPatience = time.Second / 4
	// restTime bounds the time that the unread rest of a body may take.
	restTime = 2 * time.Second
)

// borrowed is a connection while net/http has it: for one request, or for good. net/http first gets the bytes
// that were already read.
//
// For one request, net/http gets the bytes of that request, and then EOF when it reads the next one. While it
// handles the request, it reads one byte ahead to notice that the caller leaves.
type borrowed struct {
	net.Conn
	owner   *conn
	forGood bool

	// net/http makes one Read at a time.
	read  []byte // read from the connection, but not yet by net/http
	left  int    // bytes of the request that are still to be read from the connection
	ahead []byte // bytes after the request, as far as they were read

	handling atomic.Bool // the handler is running
	reading  atomic.Bool // the handler is reading the body
	framed   atomic.Bool // the next request cannot have two framings (RFC 9112, section 6.3)
	lengths  lengthFinder
	// until is when the wait for the rest of an abandoned body ends, in Unix nanoseconds; 0 if there is no
	// such body.
	until atomic.Int64

	last     atomic.Bool // the answer is the last one, but its caller may have sent more requests
	done     atomic.Bool // net/http has answered the request
	hijacked atomic.Bool // the handler has taken the connection over, for a web socket
	once     sync.Once
	over     chan struct{} // closed when neither net/http nor the handler uses the connection any more
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
		return b.Conn.Read(p) // net/http reads one byte to notice that the caller leaves
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

// Close closes the connection, unless net/http has answered its request and would keep the connection. The
// owner closes it after a last answer: the caller must get that first.
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

// wait reads bytes that net/http needs to go on.
func (b *borrowed) wait(p []byte) (n int, err error) {
	if b.handling.Load() && !b.reading.Load() {
		// guard 16.39
		b.leaveBody() // the handler has answered without the body, and net/http reads the rest
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

// leaveBody bounds, from now on, the wait for the rest of a body.
func (b *borrowed) leaveBody() { b.until.CompareAndSwap(0, time.Now().Add(restTime).UnixNano()) }

// CloseWrite is called after net/http's last answer. The owner waits until the caller has it. A handler that
// has hijacked the connection goes on reading, and closes it itself.
func (b *borrowed) CloseWrite() (err error) {
	if half, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		err = half.CloseWrite()
	}
	if !b.hijacked.Load() {
		b.once.Do(func() { close(b.over) })
	}
	return err
}

// changed is net/http's ConnState: it marks a borrowed connection as hijacked or answered.
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

// lengthFinder finds "Content-Length" in the bytes that net/http reads, even within a body.
type lengthFinder struct {
	matched int // length of the part of the name that the last bytes match
	found   atomic.Bool
}

func (f *lengthFinder) look(p []byte) {
	const name = "content-length"
	for _, c := range p {
		switch c | 0x20 { // letters in lower case; "-" stays as it is
		case name[f.matched]:
			f.matched++
		case name[0]: // the name's first letter occurs nowhere else in it
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
