package fastpath

import (
	"bufio"
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// keptBuffer bounds a buffer that is kept while it is empty, in bytes.
	keptBuffer = 16 << 10
	// maxUnsent bounds the answers, in bytes, that are sent together to a caller that
	// sends requests without waiting for answers.
	maxUnsent = 64 << 10
	// slack is the part of a limit by which a deadline may be early: moving it costs as
	// much as reading a request, so it is not moved for every one.
	slack = 16
)

// conn is a connection as long as its requests are simple. One goroutine uses it. Others
// may close net and set its deadlines.
type conn struct {
	server *Server
	net    net.Conn
	away   atomic.Bool // net/http has the connection
	given  bool        // for good, and has read a request; guarded by server.mu
	// idleSince is when the connection began to wait for bytes of its caller, in Unix
	// nanoseconds, or busy or evicted.
	idleSince atomic.Int64

	buf     []byte // in is a part of it
	in      []byte // received and not yet answered
	out     []byte // answered and not yet sent
	request Request

	began    time.Time // when the first byte of a partial request was waited for
	readBy   time.Time // the read deadline, zero if it is not known
	writeBy  time.Time
	lookBy   time.Time // when the last look for a request ends, once the server is closing
	served   bool      // whether a request has been answered
	admitted caller    // the caller that the guard let in last
}

// caller is the part of a simple request that the guard decides by, and the count Server.admits when it
// decided.
type caller struct {
	host, authorization []byte
	asked               uint64
}

// next is the next step of a connection.
type next uint8

const (
	goOn     next = iota
	end           // close it
	handOver      // net/http serves it from here on
	leave         // its last answer has been sent, and the caller may still be sending
)

// serve answers simple requests until the connection ends or brings another request.
func (c *conn) serve() next {
	for {
		size, p := parse(c.in, &c.request)
		switch p {
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
		case noBody:
			if c.admit() && c.server.opts.BodyMatters(&c.request) { // guard 16.37
				break
			}
			fallthrough // the handler answers before the body comes
		case foreign:
			if !c.flush() {
				return end
			}
			if n := c.lend(size); n != goOn {
				return n
			}
			continue
		case faulty:
			return c.refuse(twoFramings)
		case encrypted:
			return c.refuse(noTLS)
		case unusual:
			if c.flush() {
				return handOver
			}
			return end
		}
		if !c.flush() || !c.receive(p) {
			return end
		}
	}
}

// answer answers the request that in begins with. Earlier answers do not wait for one
// that is made later or by the handler.
func (c *conn) answer(size int) next {
	c.began = time.Time{}
	var later Later
	if !c.server.ending.Load() && c.admit() {
		c.request.Date = c.server.date()
		var out []byte
		if out, later = c.server.opts.Answer(&c.request, c.out); out != nil {
			c.out = out
			c.consume(size)
			return goOn
		}
	}
	if !c.flush() {
		return end
	}
	c.makeRoom()
	if later == nil {
		r, err := c.read(c.in[:size])
		if err != nil {
			return handOver // net/http knows how to say what is wrong with it
		}
		later = func(ctx context.Context, w http.ResponseWriter) {
			c.server.handler.ServeHTTP(w, r.WithContext(c.withAddress(ctx)))
		}
	}
	return c.answerLater(size, later)
}

// admit asks the guard about the caller, unless it let the same caller in last time.
func (c *conn) admit() bool {
	r, last, now := &c.request, &c.admitted, c.server.admits.Load()
	if last.host != nil && last.asked == now && bytes.Equal(r.host, last.host) && subtle.ConstantTimeCompare(r.authorization, last.authorization) == 1 { // guard 22.21
		return true
	}
	parsed, err := c.read(c.in)
	if err != nil || !c.server.opts.Admits(parsed.WithContext(c.withAddress(c.server.base()))) {
		return false
	}
	*last = caller{bytes.Clone(r.host), bytes.Clone(r.authorization), now}
	return true
}

// read parses a simple request as net/http does.
func (c *conn) read(request []byte) (*http.Request, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		return nil, err
	}
	r.RemoteAddr = c.net.RemoteAddr().String()
	return r, nil
}

// withAddress adds the address that the caller connected to, as net/http does.
func (c *conn) withAddress(ctx context.Context) context.Context {
	return context.WithValue(ctx, http.LocalAddrContextKey, c.net.LocalAddr())
}

// answerLater has the answer made that may take a while.
func (c *conn) answerLater(size int, later Later) next {
	ctx, cancel := context.WithCancel(c.server.base())
	defer cancel()
	stop := c.onHangUp(cancel)
	defer stop() // also when later panics
	w := &response{conn: c, header: make(http.Header)}
	later(ctx, w)
	w.finish()
	stop()
	c.consume(size)
	switch {
	// guard 22.11
	case w.last && c.server.ending.Load():
		return c.endAnswers() // the caller did not ask for the end
	case w.last:
		c.flush()
		return end
	}
	return goOn
}

// consume drops an answered request.
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

// flush sends the answers that were made.
func (c *conn) flush() bool {
	return len(c.out) == 0 || c.send(nil)
}

// send sends the answers that were made and, without keeping a copy, more.
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

// lend has net/http answer the request that in begins with, and takes the connection back.
func (c *conn) lend(size int) next {
	have := min(size, len(c.in))
	b := &borrowed{read: withWholeEscapes(c.in[:have]), left: size - have, ahead: c.in[have:len(c.in):len(c.in)]}
	if !c.give(b) {
		return end
	}
	if !b.done.Load() {
		return leave
	}
	c.readBy, c.writeBy, c.began = time.Time{}, time.Time{}, time.Time{} // net/http has moved the deadlines
	c.consume(have)
	if len(c.in) == 0 {
		c.in = append(c.in, b.ahead...)
	}
	return goOn
}

// give has net/http serve the connection, and returns when that is over; false if net/http
// is closed.
func (c *conn) give(b *borrowed) bool {
	b.Conn, b.owner, b.over = c.net, c, make(chan struct{})
	c.away.Store(true)
	defer c.away.Store(false)
	if c.net.SetDeadline(time.Time{}) != nil || !c.server.handoff.give(b) {
		return false
	}
	<-b.over
	return true
}

// run serves the connection to its end.
func (c *conn) run() {
	defer c.server.forget(c)
	defer c.recoverPanic()
	n := c.serve()
	if n == handOver {
		b := &borrowed{forGood: true, read: withWholeEscapes(c.in)}
		b.framed.Store(c.request.chunked && c.request.headEnded) // else another length may follow
		c.buf, c.in = nil, nil
		if !c.give(b) {
			n = end
		}
	}
	if n != end {
		c.linger()
	}
	_ = c.net.Close() // the caller has gone, or has all its answers
}

// recoverPanic ends a connection, and nothing else, if a handler panicked. The value of
// the panic may hold an entry's value, which has no place in a log.
func (c *conn) recoverPanic() {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		c.server.opts.Logger.Error("request panicked", "panic", fmt.Sprintf("%T", p))
	}
	c.flush()         // earlier requests were answered
	_ = c.net.Close() // this one is not: the caller must not take it for answered
}
