package front

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	// firstBuffer is the size of a connection's buffers, in bytes, while its requests
	// and answers are small.
	firstBuffer = 4 << 10
	// keptBuffer is how large a buffer may stay when it is empty.
	keptBuffer = 16 << 10
	// leastRoom is how much of a buffer, in bytes, has to be free for reading.
	leastRoom = 1 << 10
	// slack is the part of a limit by which a deadline may be early: to move it costs as
	// much as to read a request, so it is not moved for every one.
	slack = 16
	// maxUnsent bounds the answers, in bytes, that wait to be sent together to a caller
	// that sends requests without waiting for answers.
	maxUnsent = 64 << 10
)

// conn is a connection as long as its requests are plain. One goroutine uses it, but
// for net, which may be closed and given a deadline by others.
type conn struct {
	server *Server
	net    net.Conn

	buf     []byte // in is a part of it
	in      []byte // received and not yet answered
	out     []byte // answered and not yet sent
	request Request

	began    time.Time // when the first byte of a partial request was waited for
	readBy   time.Time // the read deadline, zero if it is not known
	writeBy  time.Time
	served   bool   // whether a request has been answered
	admitted caller // who was let in last
}

// caller is what the guard decides by, of a plain request.
type caller struct{ host, authorization string }

// next is what becomes of a connection.
type next uint8

const (
	goOn     next = iota
	end           // close it
	handOver      // it is net/http's from here on
)

// serve answers plain requests until the connection ends or brings something else.
func (c *conn) serve() next {
	for {
		size, v := parse(c.in, &c.request)
		switch v {
		case whole:
			if n := c.answer(size); n != goOn {
				return n
			}
			if len(c.in) > 0 && len(c.out) < maxUnsent {
				continue // the next request is there already
			}
		case unusual:
			if c.flush() {
				return handOver
			}
			return end
		}
		if !c.flush() || !c.receive(v) {
			return end
		}
	}
}

// answer answers the request that in begins with.
func (c *conn) answer(size int) next {
	c.began = time.Time{}
	if !c.server.closing.Load() && c.admit() {
		if out, ok := c.server.opts.Quick(&c.request, c.out); ok {
			c.out = out
			c.consume(size)
			return goOn
		}
	}
	return c.handle(size)
}

// admit asks the guard about whoever sends the request, unless it did so last time.
func (c *conn) admit() bool {
	r := &c.request
	if c.admitted.host != "" && string(r.host) == c.admitted.host && string(r.authorization) == c.admitted.authorization {
		return true
	}
	parsed, err := c.read(c.in)
	if err != nil || !c.server.opts.Admits(parsed) {
		return false
	}
	c.admitted = caller{string(r.host), string(r.authorization)}
	return true
}

// read makes of a plain request what net/http makes of it.
func (c *conn) read(request []byte) (*http.Request, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		return nil, err
	}
	r.RemoteAddr = c.net.RemoteAddr().String()
	return r.WithContext(context.WithValue(c.server.base(), http.LocalAddrContextKey, c.net.LocalAddr())), nil
}

// handle has the handler answer the request. What was answered before does not wait
// for it.
func (c *conn) handle(size int) next {
	if !c.flush() {
		return end
	}
	r, err := c.read(c.in[:size])
	if err != nil {
		return handOver // net/http knows how to say what is wrong with it
	}
	w := newResponse()
	c.server.http.Handler.ServeHTTP(w, r)
	var last bool
	c.out, last = w.append(c.out, c.server.closing.Load())
	c.consume(size)
	if last {
		c.flush()
		return end
	}
	return goOn
}

// consume forgets an answered request.
func (c *conn) consume(size int) {
	c.served = true
	c.in = c.in[size:]
	if len(c.in) > 0 {
		return
	}
	if cap(c.buf) > keptBuffer {
		c.buf = make([]byte, firstBuffer)
	}
	c.in = c.buf[:0]
}

// flush sends what was answered.
func (c *conn) flush() bool {
	if len(c.out) == 0 {
		return true
	}
	limit := c.server.http.WriteTimeout
	if now := time.Now(); c.writeBy.Sub(now) < limit-limit/slack {
		c.writeBy = now.Add(limit)
		if c.net.SetWriteDeadline(c.writeBy) != nil {
			return false
		}
	}
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	if cap(c.out) > keptBuffer {
		c.out = nil
	}
	return err == nil
}

// receive reads more of the input, v being what there is of it; false when nothing
// more will come in time.
func (c *conn) receive(v verdict) bool {
	c.makeRoom()
	for {
		if !c.setReadDeadline(v) {
			return false
		}
		if len(c.in) == 0 && c.server.closing.Load() {
			return false // Shutdown's own deadline may have been overwritten just now
		}
		n, err := c.net.Read(c.buf[len(c.in):cap(c.buf)])
		c.in = c.buf[:len(c.in)+n]
		switch {
		case n > 0:
			return true
		case len(c.in) > 0 && errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(c.readBy):
			c.readBy = time.Time{} // Shutdown woke this up: a request that has begun may end
		default:
			return false
		}
	}
}

// makeRoom puts in at the start of a buffer with room behind it.
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

// run serves the connection to its end or hands it over.
func (c *conn) run() {
	defer c.server.forget(c)
	defer func() {
		if p := recover(); p != nil {
			// What was panicked with may hold a value, which has no place in a log.
			c.server.opts.Logger.Error("request panicked", "panic", fmt.Sprintf("%T", p))
			_ = c.net.Close() // without an answer: nothing is known
		}
	}()
	if c.serve() == handOver && c.net.SetDeadline(time.Time{}) == nil &&
		c.server.handoff.give(&replayed{Conn: c.net, read: c.in}) {
		return
	}
	_ = c.net.Close() // the caller has gone, or has been told all that there is to tell
}
