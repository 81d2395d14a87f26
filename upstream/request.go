package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"

	"github.com/botwired/botwired/internal/httplog"
)

// do makes one request. Its failure is Unsent when the request cannot have arrived
// whole, and Unanswered otherwise.
func (c *Client) do(ctx context.Context, method, target string, body []byte) (*answer, *RequestError) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	var p progress
	req, err := c.request(httptrace.WithClientTrace(ctx, p.trace()), method, target, body)
	if err != nil {
		return nil, p.failure(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, p.failure(err)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		p.sent.Store(true)
		return nil, p.failure(err)
	}
	return &answer{resp.StatusCode, resp.Header, data}, nil
}

// progress is how far a request has come.
type progress struct {
	connected atomic.Bool // some connection was had
	// sent is true while the request may have reached upstream whole: from the moment
	// it has a connection, unless writing it fails. A write that fails has not handed
	// over all of it, and upstream waits for the rest in vain. The transport takes a
	// second connection only if nothing went out on the first, but for reads, which
	// leave nothing behind.
	sent atomic.Bool
}

func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { p.sent.Store(false) },
		GotConn: func(httptrace.GotConnInfo) {
			p.connected.Store(true)
			p.sent.Store(true)
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) { p.sent.Store(info.Err == nil) },
	}
}

func (p *progress) failure(err error) *RequestError {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the URL is upstream's and known
	}
	// What upstream sent that is no answer stays out of it: it may be a value.
	reason := httplog.Unquoted(err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		reason = "no answer in time"
	}
	if p.sent.Load() {
		return &RequestError{verdict: Unanswered, reason: reason}
	}
	return &RequestError{verdict: Unsent, unreachable: !p.connected.Load(), reason: reason}
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
	for name, values := range c.opts.Headers {
		req.Header[name] = values
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	return req, nil
}
