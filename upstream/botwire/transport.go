package botwire

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// idleFor is how long an unused connection is kept.
	idleFor = 90 * time.Second
	// idleForWrites is how long a connection may have been unused when a write gets it. Servers close one after
	// a while, and a write that meets this on its way may land or not. Those in use do so after 2 s (gunicorn)
	// or 5 s (uvicorn, Node). A read is made again.
	idleForWrites = 1500 * time.Millisecond
	// maxResponseHeader bounds the header of an answer, in bytes.
	maxResponseHeader = 64 << 10
	// takenWithin is how long upstream may take to accept each write of a request. Otherwise the body
	// of a forwarded request goes at upstream's pace, and the request might never end: net/http applies
	// its deadline for the answer only once the request is written.
	takenWithin = time.Minute
)

// transport makes the client's requests and the forwarded ones. It speaks only HTTP/1.1: with one
// request at a time on a connection, each request knows whether the connection has taken any of it.
type transport struct{ *http.Transport }

func newTransport(opts Options) transport {
	dial := (&net.Dialer{Timeout: opts.Timeout}).DialContext
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    opts.Timeout,
		MaxIdleConns:           2 * opts.Concurrency,
		MaxIdleConnsPerHost:    2 * opts.Concurrency,
		IdleConnTimeout:        idleFor,
		ResponseHeaderTimeout:  opts.Timeout, // a forwarded request has no other
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if opts.Dial != nil {
		t.Proxy = nil
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return opts.Dial(ctx) }
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c}, nil
	}
	return transport{t}
}

var errSwitched = errors.New("upstream answered 101 Switching Protocols, which the request did not ask for")

// RoundTrip refuses an answer that switches protocols unasked. net/http makes the whole connection the
// body of such an answer, and no deadline of the request bounds that.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || isWebSocket(r.Header) && isWebSocket(resp.Header) {
		return resp, err
	}
	return nil, errors.Join(errSwitched, resp.Body.Close()) // guard 16.1
}

// isWebSocket reports whether a header asks for, or agrees to, WebSocket, the only protocol that a
// connection may switch to. Any other protocol that carries requests could bypass the journal with
// writes.
func isWebSocket(h http.Header) bool { return strings.EqualFold(h.Get("Upgrade"), "websocket") } // guard 1.5

// conn is a connection to upstream. Each of its writes must complete within takenWithin. It knows what has become of its
// present request, if there was no answer.
type conn struct {
	net.Conn
	request atomic.Int32 // whether it has taken anything of the request
	taken   atomic.Int64 // bytes of the request that it has taken, unless a write has failed
	failed  atomic.Bool  // a write has failed
	unread  atomic.Bool  // when it was closed, nothing that it had taken of the request was acknowledged
}

// The values of conn.request.
const (
	nothing   int32 = iota // no byte, yet
	something              // at least a byte, perhaps
	never                  // no byte, and it will take none
)

// connOf returns the connection beneath TLS, which is all that net/http puts over it.
func connOf(c net.Conn) *conn {
	for {
		if own, ok := c.(*conn); ok {
			return own
		}
		c = c.(*tls.Conn).NetConn()
	}
}

// begin is called when a request has got the connection, before the request is written.
func (c *conn) begin() {
	c.request.Store(nothing)
	c.taken.Store(0)
}

// refuse reports whether the connection has taken no byte of its request. Then it never will.
func (c *conn) refuse() bool {
	return c.request.CompareAndSwap(nothing, never) || c.request.Load() == never
}

var errRefused = errors.New("the request is written no longer")

func (c *conn) Write(p []byte) (int, error) {
	first := c.request.CompareAndSwap(nothing, something)
	if !first && c.request.Load() == never {
		return 0, errRefused
	}
	c.taken.Add(int64(len(p)))                                   // before it writes: the reader may close the connection as soon as upstream has these bytes
	n, err := 0, c.SetWriteDeadline(time.Now().Add(takenWithin)) // guard 16.2
	if err == nil {
		n, err = c.Conn.Write(p)
	}
	if err != nil {
		c.failed.Store(true)
	}
	if first && n == 0 {
		c.request.CompareAndSwap(something, nothing)
	}
	return n, err
}

// Close also asks what the other side has received. Afterwards nobody can ask.
func (c *conn) Close() error {
	if taken := c.taken.Load(); taken > 0 && taken == unacknowledged(c.Conn) {
		c.unread.Store(true)
	}
	return c.Conn.Close()
}

// closedUnread reports whether upstream had ended the connection, with err, before anything of the request came to it.
// The end of what a server sends, a FIN, acknowledges all that its kernel has received by then. So if the request is
// not acknowledged, its program had closed the connection before. (One that goes on reading, so that the client gets
// the last answer, drops what it reads.)
//
// A reset is no such sign: it may follow a request that was read, and a client's kernel does not look at what it
// acknowledges. After a reset has failed a write, a read may find an end that is none.
func (c *conn) closedUnread(err error) bool {
	// guard 15.23
	return errors.Is(err, io.EOF) && c.unread.Load() && !c.failed.Load()
}
