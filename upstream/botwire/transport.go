package botwire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// idleFor is how long an unused connection is kept.
	idleFor = 90 * time.Second
	// maxResponseHeader bounds the header of an answer, in bytes.
	maxResponseHeader = 64 << 10
	// takenWithin is how long upstream may take to accept each write of a request. Otherwise the body
	// of a forwarded request goes at upstream's pace, and the request might never end: net/http applies
	// its deadline for the answer only once the request is written.
	takenWithin = time.Minute
)

// transport makes the client's requests and the forwarded ones. It speaks only HTTP/1.1: with one
// request at a time on a connection, it is certain whether a failed request was sent.
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
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return boundedConn{conn}, nil
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

// boundedConn is a connection whose writes must each complete within takenWithin.
type boundedConn struct{ net.Conn }

func (c boundedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(takenWithin)); err != nil { // guard 16.2
		return 0, err
	}
	return c.Conn.Write(p)
}
