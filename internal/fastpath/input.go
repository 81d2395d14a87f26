package fastpath

import (
	"errors"
	"os"
	"sync"
	"time"
)

const (
	leastRoom = 1 << 10
	// lastLook bounds how long a connection may still bring a request while the server is closing. firstLook
	// bounds it for a connection that has had no request: its caller may have just sent one, and must not
	// find the connection broken.
	lastLook  = 20 * time.Millisecond
	firstLook = 250 * time.Millisecond
	// ownTime bounds how long Shutdown waits for such requests before it shuts net/http down.
	ownTime = 2 * firstLook
)

// longAgo as a deadline ends a read at once.
var longAgo = time.Unix(1, 0)

// receive reads more input; p says which part of a request it already has. It returns false if no more will
// come in time.
func (c *conn) receive(p part) bool {
	c.makeRoom()
	now := time.Now()
	c.rest(now) // guard 16.32
	for ; ; now = time.Now() {
		if !c.setReadDeadline(p, now) {
			return false
		}
		if p != noBody && c.server.closing.Load() && !c.look() { // guard 22.9
			return false
		}
		n, err := c.net.Read(c.buf[len(c.in):cap(c.buf)])
		c.in = c.buf[:len(c.in)+n]
		switch {
		case n > 0:
			return c.wake()
		case p == noBody && errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(c.readBy):
			c.readBy = time.Time{} // Shutdown interrupted the read: the rest of a body may still come
		case p != noBody && errors.Is(err, os.ErrDeadlineExceeded) && c.server.closing.Load():
			c.readBy = time.Time{} // Shutdown interrupted the read: a request may have come meanwhile
		default:
			return false
		}
	}
}

// look allows a last wait for a request while the server is closing. It returns false once that wait is over.
func (c *conn) look() bool {
	now := time.Now()
	if c.lookBy.IsZero() {
		c.lookBy = now.Add(lastLook)
		if !c.served {
			c.lookBy = now.Add(firstLook)
		}
	}
	return now.Before(c.lookBy) && c.net.SetReadDeadline(c.lookBy) == nil
}

// makeRoom makes room behind in, and moves in to another buffer if necessary. All whole requests in the
// buffer are answered before more is read, so it stays small.
func (c *conn) makeRoom() {
	if c.buf == nil {
		c.buf = make([]byte, firstBuffer)
	}
	if cap(c.buf)-len(c.in) < leastRoom {
		c.buf = make([]byte, 2*cap(c.buf))
	}
	c.in = c.buf[:copy(c.buf, c.in)]
}

// setReadDeadline bounds the wait for the next bytes, with the same limits as net/http.
func (c *conn) setReadDeadline(p part, now time.Time) bool {
	limits := c.server.http
	by := now.Add(limits.IdleTimeout)
	switch {
	case len(c.in) > 0:
		if c.began.IsZero() {
			c.began = now
		}
		by = c.began.Add(limits.ReadHeaderTimeout)
		if p == noBody {
			by = c.began.Add(limits.ReadTimeout)
		}
	case !c.served:
		by = now.Add(limits.ReadHeaderTimeout)
	case by.Sub(c.readBy) < limits.IdleTimeout/slack:
		return true
	}
	c.readBy = by
	return c.net.SetReadDeadline(by) == nil
}

// onHangUp calls leave if the caller closes the connection while its request is handled. To notice that, it
// reads only one byte ahead: pipelined requests must not pile up here. stop ends this and adds the byte to
// in. It may be called again.
func (c *conn) onHangUp(leave func()) (stop func()) {
	room := c.buf[len(c.in) : len(c.in)+1]
	c.readBy = time.Time{}
	_ = c.net.SetReadDeadline(c.readBy) // an error means that the connection has already ended
	read := make(chan int, 1)
	go func() {
		n, err := c.net.Read(room)
		if n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
			leave()
		}
		read <- n
	}()
	return sync.OnceFunc(func() {
		_ = c.net.SetReadDeadline(longAgo)
		c.in = c.buf[:len(c.in)+<-read]
	})
}
