package fastpath

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// firstBuffer is the size of a connection's buffer, in bytes, while its requests are small.
	firstBuffer = 4 << 10
	// keptBuffer bounds the empty buffer that a connection keeps, in bytes.
	keptBuffer = 16 << 10
	// maxUnsent bounds the unsent answers, in bytes, to a caller that pipelines requests.
	maxUnsent = 64 << 10
	// slack is the part of a limit (1/slack) by which a deadline may be early. Moving a deadline costs as
	// much as reading a request, so it is not moved for each request.
	slack = 16
)

// conn is a connection while its requests are simple. One goroutine uses it. Others may close net and set its
// deadlines.
type conn struct {
	server *Server
	net    net.Conn
	away   bool // net/http has the connection; guarded by server.mu
	given  bool // net/http has it for good, and has read a request; guarded by server.mu
	// idleSince is when the connection began to wait for bytes of its caller, in Unix nanoseconds, or
	// busy or evicted.
	idleSince atomic.Int64

	buf     []byte // the buffer that in is a part of
	in      []byte // received and not yet answered
	out     []byte // answered and not yet sent
	request Request

	began    time.Time // when the wait for the first byte of a partial request began
	readBy   time.Time // the read deadline; zero if it is unknown
	writeBy  time.Time
	lookBy   time.Time // when the last wait for a request ends, while the server is closing
	served   bool      // a request has been answered
	admitted caller    // the caller that the guard let in last
}

// caller is the part of a simple request that the guard decides by, and the count Server.admits when it
// decided.
type caller struct {
	host, authorization []byte
	asked               uint64
}

type next uint8

const (
	goOn     next = iota
	end           // close it
	handOver      // net/http serves it from now on
	leave         // its last answer has been sent, but the caller may still be sending
)

func (c *conn) read(request []byte) (*http.Request, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		return nil, err
	}
	r.RemoteAddr = c.net.RemoteAddr().String()
	return r, nil
}

func (c *conn) withAddress(ctx context.Context) context.Context {
	return context.WithValue(ctx, http.LocalAddrContextKey, c.net.LocalAddr())
}

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

func (c *conn) flush() bool {
	return len(c.out) == 0 || c.send(nil)
}

// send sends the pending answers and then more, which it does not copy.
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
