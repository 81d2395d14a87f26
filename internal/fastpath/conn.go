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
	// firstBuffer is the size of a connection's buffer, in bytes, while its requests are
	// small.
	firstBuffer = 4 << 10
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

type next uint8

const (
	goOn     next = iota
	end           // close it
	handOver      // net/http serves it from here on
	leave         // its last answer has been sent, and the caller may still be sending
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
