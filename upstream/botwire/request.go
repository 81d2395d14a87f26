package botwire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/upstream"
)

// do makes one request. It fails as Unsent if the request cannot have arrived completely, and as
// Unanswered if no complete answer came. For a request that came back to this daemon, see loopFailure.
func (c *Client) do(ctx context.Context, method, target string, body []byte) (*answer, *upstream.Error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	var t transfer
	req, err := c.request(httptrace.WithClientTrace(ctx, t.trace()), method, target, body)
	if err != nil {
		return nil, t.failure(err, c.opts.Timeout)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, t.failure(err, c.opts.Timeout)
	}
	if sentAt := t.sentAt.Load(); c.opts.OnAnswer != nil && sentAt != nil {
		c.opts.OnAnswer(dateOf(resp.Header), *sentAt, time.Now())
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.sent.Store(true)
		return nil, t.failure(err, c.opts.Timeout)
	}
	if c.opts.Chain.Learn(resp.StatusCode, resp.Header) { // guard 13.23
		return nil, loopFailure(resp.StatusCode)
	}
	return &answer{method, resp.StatusCode, resp.Header, data}, nil
}

// loopFailure is the failure of a request that came back to this daemon, or to a daemon whose upstream
// is this one. With a 508, nothing of the request was done.
func loopFailure(status int) *upstream.Error {
	verdict := upstream.Transient
	if status == http.StatusLoopDetected {
		verdict = upstream.Unsent
	}
	return &upstream.Error{
		Verdict: verdict, Unreachable: true, Status: status,
		Reason: "upstream.url leads to this daemon itself, by another address or by another botwired: set it to the memory service",
	}
}

// transfer records how far a request got on its way to upstream.
type transfer struct {
	connected atomic.Bool // the request has had a connection
	// sent is true while the request may have reached upstream completely: once it has a connection,
	// unless writing the request fails. After a failed write, upstream has only part of the request and
	// waits for the rest in vain. The transport takes a second connection only if nothing was sent on
	// the first, or for a read, which leaves nothing behind.
	sent   atomic.Bool
	sentAt atomic.Pointer[time.Time] // when the request got the connection
}

func (t *transfer) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { t.sent.Store(false) },
		GotConn: func(httptrace.GotConnInfo) {
			now := time.Now()
			t.sentAt.Store(&now)
			t.connected.Store(true)
			t.sent.Store(true)
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) { t.sent.Store(info.Err == nil) },
	}
}

func (t *transfer) failure(err error, timeout time.Duration) *upstream.Error {
	reason := explain(err, t.connected.Load(), timeout)
	if t.sent.Load() {
		return &upstream.Error{Verdict: upstream.Unanswered, Reason: reason}
	}
	return &upstream.Error{Verdict: upstream.Unsent, Unreachable: !t.connected.Load(), Reason: reason}
}

func (c *Client) request(ctx context.Context, method, target string, body []byte) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	trace.From(ctx).Set(req.Header)
	maps.Copy(req.Header, *c.headers.Load()) // guard 22.23
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	c.opts.Chain.Sign(req.Header)
	return req, nil
}
