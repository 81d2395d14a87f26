package front

import (
	"bufio"
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// keptBuffer is how large a buffer may stay when it is empty, in bytes.
	keptBuffer = 16 << 10
	// maxUnsent bounds the answers, in bytes, that wait to be sent together to a caller
	// that sends requests without waiting for answers.
	maxUnsent = 64 << 10
	// slack is the part of a limit by which a deadline may be early: to move it costs as
	// much as to read a request, so it is not moved for every one.
	slack = 16
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
type caller struct{ host, authorization []byte }

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
			if len(c.in) > 0 {
				if len(c.out) > maxUnsent && !c.flush() {
					return end
				}
				continue // there may be another one already
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
		c.request.Date = c.server.date()
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
	r, last := &c.request, &c.admitted
	if last.host != nil && bytes.Equal(r.host, last.host) && subtle.ConstantTimeCompare(r.authorization, last.authorization) == 1 {
		return true
	}
	parsed, err := c.read(c.server.base(), c.in)
	if err != nil || !c.server.opts.Admits(parsed) {
		return false
	}
	*last = caller{bytes.Clone(r.host), bytes.Clone(r.authorization)}
	return true
}

// read makes of a plain request what net/http makes of it.
func (c *conn) read(ctx context.Context, request []byte) (*http.Request, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		return nil, err
	}
	r.RemoteAddr = c.net.RemoteAddr().String()
	return r.WithContext(context.WithValue(ctx, http.LocalAddrContextKey, c.net.LocalAddr())), nil
}

// handle has the handler answer the request. What was answered before does not wait
// for it, and its context ends if the caller leaves.
func (c *conn) handle(size int) next {
	if !c.flush() {
		return end
	}
	c.makeRoom()
	ctx, cancel := context.WithCancel(c.server.base())
	defer cancel()
	r, err := c.read(ctx, c.in[:size])
	if err != nil {
		return handOver // net/http knows how to say what is wrong with it
	}
	stop := c.watch(cancel)
	defer stop() // also of a panic
	w := &response{conn: c, header: make(http.Header)}
	c.server.http.Handler.ServeHTTP(w, r)
	w.finish()
	stop()
	c.consume(size)
	if w.last {
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
	return len(c.out) == 0 || c.send(nil)
}

// send sends what was answered and, without keeping a copy, more.
func (c *conn) send(more []byte) bool {
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
	if err == nil && len(more) > 0 {
		_, err = c.net.Write(more)
	}
	return err == nil
}

// run serves the connection to its end or hands it over.
func (c *conn) run() {
	defer c.server.forget(c)
	defer c.survive()
	if c.serve() == handOver && c.net.SetDeadline(time.Time{}) == nil &&
		c.server.handoff.give(&replayed{Conn: c.net, read: c.in}) {
		return
	}
	_ = c.net.Close() // the caller has gone, or has been told all that there is to tell
}

// survive ends a connection, and nothing else, if a handler panicked. What was panicked
// with may hold a value, which has no place in a log.
func (c *conn) survive() {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		c.server.opts.Logger.Error("request panicked", "panic", fmt.Sprintf("%T", p))
	}
	c.flush()         // earlier requests were answered
	_ = c.net.Close() // this one is not: nothing is known of it
}
