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

// do makes one request, and returns its answer if that came whole. A request that was not sent because upstream had
// closed an old connection is made again. For one that came back to this daemon, see loopFailure.
func (c *Client) do(ctx context.Context, method, target string, body []byte) (*answer, *upstream.Error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	t := transfer{writes: method != http.MethodGet}
	var resp *http.Response
	for resp == nil {
		req, err := c.request(httptrace.WithClientTrace(ctx, t.trace()), method, target, body)
		if err == nil {
			resp, err = c.http.Do(req) //nolint:bodyclose // it is closed below
		}
		if err != nil && (!t.old.Load() || t.fate(err) != neverSent || ctx.Err() != nil) { // guard 15.21
			return nil, t.failure(err, c.opts.Timeout)
		}
	}
	if sentAt := t.sentAt.Load(); c.opts.OnAnswer != nil && sentAt != nil {
		c.opts.OnAnswer(dateOf(resp.Header), *sentAt, time.Now())
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, t.failure(err, c.opts.Timeout)
	}
	a := &answer{method: method, status: resp.StatusCode, header: resp.Header, body: data}
	if a.looped = c.opts.Chain.Learn(resp.StatusCode, resp.Header); a.looped { // guard 13.23
		return nil, a.loopFailure()
	}
	return a, nil
}

// loopFailure is the failure of a request that came back to this daemon, or to a daemon whose upstream
// is this one.
func (a *answer) loopFailure() *upstream.Error {
	return &upstream.Error{
		Verdict: meaning(answered, a), Unreachable: true, Status: a.status,
		Reason: "upstream.url leads to this daemon itself, by another address or by another botwired: set it to the memory service",
	}
}

// transfer records how far a request got on its way to upstream. The transport takes a second connection
// only if the first has taken nothing, or for a read, which leaves nothing behind.
type transfer struct {
	writes bool
	conn   atomic.Pointer[conn]      // the request's present connection; nil if it has none
	old    atomic.Bool               // an earlier request has had that connection
	sentAt atomic.Pointer[time.Time] // when the request got the connection
}

func (t *transfer) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			t.conn.Store(nil)
			t.old.Store(false)
		},
		GotConn: func(info httptrace.GotConnInfo) {
			now := time.Now()
			t.sentAt.Store(&now)
			c := connOf(info.Conn)
			c.begin()
			if t.writes && info.IdleTime > idleForWrites { // guard 15.22
				c.refuse() // the transport takes another one
			}
			t.conn.Store(c)
			t.old.Store(info.Reused)
		},
	}
}

// fate returns how far a request got that failed with err, without a whole answer.
func (t *transfer) fate(err error) fate {
	if c := t.conn.Load(); c != nil && !c.refuse() && !c.closedUnread(err) { // guard 15.20
		return mayLand
	}
	return neverSent
}

// failure returns the failure of a request that got no whole answer.
func (t *transfer) failure(err error, timeout time.Duration) *upstream.Error {
	connected := t.conn.Load() != nil
	return &upstream.Error{
		Verdict: meaning(t.fate(err), nil), Unreachable: !connected, Reason: explain(err, connected, timeout),
	}
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
