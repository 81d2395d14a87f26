package front

import (
	"errors"
	"os"
	"sync"
	"time"
)

const (
	// firstBuffer is the size of a connection's buffer, in bytes, while its requests are
	// small.
	firstBuffer = 4 << 10
	// leastRoom is how much of a buffer, in bytes, has to be free for reading.
	leastRoom = 1 << 10
)

// longAgo as a deadline ends a read at once.
var longAgo = time.Unix(1, 0)

// receive reads more of the input, v being what there is of it; false when nothing
// more will come in time.
func (c *conn) receive(v verdict) bool {
	c.makeRoom()
	for {
		if !c.setReadDeadline(v) {
			return false
		}
		if v != noBody && c.server.closing.Load() {
			return false // Shutdown's own deadline may have been overwritten just now
		}
		n, err := c.net.Read(c.buf[len(c.in):cap(c.buf)])
		c.in = c.buf[:len(c.in)+n]
		switch {
		case n > 0:
			return true
		case v == noBody && errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(c.readBy):
			c.readBy = time.Time{} // Shutdown woke this up: a request that has come but for its end may come
		default:
			return false
		}
	}
}

// makeRoom puts in at the start of a buffer with room behind it. Before more than a byte
// is read, whatever in holds whole has been answered, so the buffer stays small.
func (c *conn) makeRoom() {
	if c.buf == nil {
		c.buf = make([]byte, firstBuffer)
	}
	if cap(c.buf)-len(c.in) < leastRoom {
		c.buf = make([]byte, 2*cap(c.buf))
	}
	c.in = c.buf[:copy(c.buf, c.in)]
}

// setReadDeadline bounds how long the next bytes may take: what net/http allows for.
func (c *conn) setReadDeadline(v verdict) bool {
	now, limits := time.Now(), c.server.http
	by := now.Add(limits.IdleTimeout)
	switch {
	case len(c.in) > 0:
		if c.began.IsZero() {
			c.began = now
		}
		by = c.began.Add(limits.ReadHeaderTimeout)
		if v == noBody {
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

// watch reads on while a request is being handled, and calls leave if the connection
// ends. It takes one byte at most: what callers send ahead must not pile up here. stop
// ends the watch and adds the byte to in; it may be called again.
func (c *conn) watch(leave func()) (stop func()) {
	room := c.buf[len(c.in) : len(c.in)+1]
	c.readBy = time.Time{}
	_ = c.net.SetReadDeadline(c.readBy) // if it cannot be moved the connection has ended
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
