package fastpath

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// lingerTime is how long a connection stays open after its last answer. If it is closed while bytes come in,
// the caller may lose the answer (RFC 9112, section 9.6).
const lingerTime = time.Second / 2

// twoFramings refuses a request that says twice where its body ends. Another server on the way may go by the
// other one (RFC 9112, section 6.3).
const twoFramings = `{"detail":"The request has both Transfer-Encoding and Content-Length: where it ends is uncertain. Send one of them."}`

// noTLS answers a caller that speaks TLS to this plain-http server, and would wait for a TLS answer.
const noTLS = `{"detail":"The request begins with TLS, and this server speaks plain http: use http:// in place of https://."}`

// refuse answers a request whose end is uncertain. It is the last request on its connection.
func (c *conn) refuse(body string) next {
	c.out = append(c.out, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(body))+
		"\r\nContent-Type: application/json\r\n"+c.server.date()+"\r\n"+body...)
	return c.endAnswers()
}

// endAnswers sends the last answer. The caller may have sent more requests, but nobody reads them.
func (c *conn) endAnswers() next {
	if !c.flush() {
		return end
	}
	if half, ok := c.net.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // an error means that the connection has already ended
	}
	return leave
}

// linger waits until the caller has the last answer: until it closes its side, or for lingerTime. A newcomer
// may evict the connection meanwhile.
func (c *conn) linger() {
	c.rest(time.Now()) // guard 16.34
	for by := time.Now().Add(lingerTime); time.Now().Before(by) && c.net.SetReadDeadline(by) == nil; {
		if _, err := io.Copy(io.Discard, c.net); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		// If Shutdown interrupted the read, the caller may not have its answer yet.
	}
}

type borrowedKey struct{}

// withBorrowed lets the handler find its request's connection.
func withBorrowed(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, borrowedKey{}, c)
}

// handleBorrowed calls the handler for a request that net/http has read. The connection counts as idle while
// it waits for the body. A body that the handler has not read to the end gets less time.
func (s *Server) handleBorrowed(w http.ResponseWriter, r *http.Request) {
	b := r.Context().Value(borrowedKey{}).(*borrowed)
	if len(r.TransferEncoding) > 0 && !b.framed.Swap(false) && b.lengths.found.Load() { // guard 16.42
		// The request may have a Content-Length too: net/http does not say.
		w.Header().Set("Connection", "close")
	}
	if s.ending.Load() && r.Header.Get("Upgrade") == "" { // the answer to a handshake has its own Connection header
		w.Header().Set("Connection", "close")
		b.last.Store(true)
	}
	if b.forGood {
		s.giveAway(b.owner)
	}
	b.handling.Store(true)
	defer b.handling.Store(false)
	if r.Body == http.NoBody {
		s.handler.ServeHTTP(w, r)
		return
	}
	body := &watchedBody{ReadCloser: r.Body, of: b}
	defer func() {
		if !body.ended.Load() {
			b.leaveBody() // guard 16.38
		}
	}()
	watched := r.WithContext(r.Context())
	watched.Body = body
	s.handler.ServeHTTP(w, watched)
}

type watchedBody struct {
	io.ReadCloser
	of    *borrowed
	ended atomic.Bool
}

func (w *watchedBody) Read(p []byte) (int, error) {
	w.of.reading.Store(true)
	defer w.of.reading.Store(false)
	n, err := w.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		w.ended.Store(true)
	}
	return n, err
}
