package fastpath

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// serve answers simple requests until the connection ends or net/http has to take over.
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
				continue // the next request may already be there
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

// answer answers the request that in begins with. It flushes earlier answers before it waits for this one.
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
			return handOver // net/http writes the right error answer
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

// answerLater calls later, which may take a while, and sends its answer.
func (c *conn) answerLater(size int, later Later) next {
	ctx, cancel := context.WithCancel(c.server.base())
	defer cancel()
	stop := c.onHangUp(cancel)
	defer stop() // also if later panics
	w := &response{conn: c, header: make(http.Header)}
	later(ctx, w)
	w.finish()
	stop()
	c.consume(size)
	switch {
	// guard 22.11
	case w.last && c.server.ending.Load():
		return c.endAnswers() // the caller did not ask for the end, and may have sent more
	case w.last:
		c.flush()
		return end
	}
	return goOn
}

// lend lets net/http answer the request that in begins with, and then takes the connection back.
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

// give lends the connection to net/http, and returns when net/http is done with it. It returns false if
// net/http is closed.
func (c *conn) give(b *borrowed) bool {
	b.Conn, b.owner, b.over = c.net, c, make(chan struct{})
	c.server.lend(c, true)
	defer c.server.lend(c, false)
	if c.net.SetDeadline(time.Time{}) != nil || c.server.handoff.Hand(c.server.base(), b) != nil {
		return false
	}
	<-b.over
	return true
}

func (c *conn) run() {
	defer c.server.forget(c)
	defer c.recoverPanic()
	n := c.serve()
	if n == handOver {
		b := &borrowed{forGood: true, read: withWholeEscapes(c.in)}
		b.framed.Store(c.request.chunked && c.request.headEnded) // else the next bytes may hold a second length
		c.buf, c.in = nil, nil
		if !c.give(b) {
			n = end
		}
	}
	if n != end {
		c.linger()
	}
	_ = c.net.Close() // the caller has gone or has all its answers
}

// recoverPanic ends only this connection when a handler panics. A panic's value may hold an entry's value, so
// only its type is logged.
func (c *conn) recoverPanic() {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		c.server.opts.Logger.Error("request panicked", "panic", fmt.Sprintf("%T", p))
	}
	c.flush()         // earlier requests were answered
	_ = c.net.Close() // this one was not: the caller must not take it for answered
}
