package botwire

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/via"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// maxAnswer bounds how much of an answer the client reads, in bytes. The largest entry has 100,000 code
// points, 12 bytes each when escaped; a listing of 1,000 keys is far smaller.
const maxAnswer = 4 << 20

// Options configures a client.
type Options struct {
	// URL is the base URL of the service: scheme, host and perhaps a path.
	URL *url.URL
	// Timeout bounds one request, including its answer.
	Timeout time.Duration
	// Headers are sent with every request; see SetHeaders.
	Headers http.Header
	// Concurrency is half the number of idle connections kept open.
	Concurrency int
	// UserAgent names this program.
	UserAgent string
	// Chain, if not nil, signs the requests, and detects requests that come back to this daemon.
	Chain *via.Chain
	// Dial, if not nil, connects instead of the network: to the embedded upstream.
	Dial func(ctx context.Context) (net.Conn, error)
	// Logger, if not nil, is told of rows of lists that are left out.
	Logger *slog.Logger
	// OnAnswer, if not nil, is called with every answer to a request of the client's own: the answer's
	// Date (zero if it has none or comes from a cache), when the request had its connection, and when
	// the answer's header arrived. Both times are from [time.Now].
	OnAnswer func(date, sent, received time.Time)
}

// Client is the engine: it makes single requests to BotWire. It never retries what may have been sent, never follows a redirect
// and never trusts an answer that is not BotWire's. It may be used concurrently.
type Client struct {
	opts Options
	base string // scheme, host and path, without a trailing slash
	http *http.Client

	headers atomic.Pointer[http.Header]

	odd sync.Map // the namespaces whose last list had odd rows
}

var _ upstream.Engine = (*Client)(nil)

// NewClient returns a client; Close releases its connections.
func NewClient(opts Options) *Client {
	c := &Client{
		opts: opts,
		base: opts.URL.Scheme + "://" + opts.URL.Host + strings.TrimSuffix(opts.URL.EscapedPath(), "/"),
		http: &http.Client{
			Transport: newTransport(opts),
			CheckRedirect: func(*http.Request, []*http.Request) error {
				// A redirected PUT would continue as a GET and end in a 200 (contract 15).
				return http.ErrUseLastResponse // guard 15.15
			},
		},
	}
	c.SetHeaders(opts.Headers)
	return c
}

// SetHeaders replaces the headers that are sent with every request from now on. The caller must not
// change h afterwards.
func (c *Client) SetHeaders(h http.Header) { c.headers.Store(&h) }

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Exact implements [upstream.Engine]: BotWire has no conditional writes.
func (c *Client) Exact() bool { return false }

// Named implements [upstream.Engine]: BotWire knows no writers.
func (c *Client) Named(string) bool { return false }

// Known implements [upstream.Engine]: nothing is known without a request.
func (c *Client) Known(journal.ID) (upstream.Version, bool) { return upstream.Version{}, false }

// Swap implements [upstream.Engine]. BotWire does not return the resulting version.
func (c *Client) Swap(ctx context.Context, p upstream.Proposal) (upstream.Version, error) {
	if p.Op == journal.Delete {
		return c.remove(ctx, p.ID)
	}
	body, err := json.Marshal(map[string]string{"value": p.Value})
	if err != nil {
		return upstream.Version{}, &upstream.Error{Verdict: upstream.Permanent, Reason: "the value cannot be encoded"}
	}
	answer, failed := c.do(ctx, http.MethodPut, c.entryURL(p.ID), body)
	switch {
	case failed != nil:
		return upstream.Version{}, failed
	case !answer.confirmsPut(p.ID):
		return upstream.Version{}, answer.failure()
	}
	return upstream.Version{Value: p.Value, ListBytes: p.ListBytes, Date: dateOf(answer.header)}, nil
}

func (c *Client) remove(ctx context.Context, id journal.ID) (upstream.Version, error) {
	answer, failed := c.do(ctx, http.MethodDelete, c.entryURL(id), nil)
	switch {
	case failed != nil:
		return upstream.Version{}, failed
	case !answer.confirmsDelete(id):
		return upstream.Version{}, answer.failure()
	}
	return upstream.Version{Deleted: !answer.saysAbsent(id)}, nil
}

// Get implements [upstream.Engine].
func (c *Client) Get(ctx context.Context, id journal.ID) (upstream.Version, error) {
	answer, failed := c.do(ctx, http.MethodGet, c.entryURL(id), nil)
	if failed != nil {
		return upstream.Version{}, failed
	}
	if answer.saysAbsent(id) {
		return upstream.Version{Date: dateOf(answer.header)}, nil
	}
	var doc struct {
		Namespace, Key string
		Value          *string
		CreatedAt      *float64 `json:"created_at"`
		UpdatedAt      *float64 `json:"updated_at"`
	}
	if !answer.decode(&doc) || answer.status != http.StatusOK || doc.Namespace != id.Namespace || doc.Key != id.Key ||
		doc.Value == nil || !isTime(doc.CreatedAt) || !isTime(doc.UpdatedAt) {
		return upstream.Version{}, answer.failure()
	}
	return upstream.Version{
		Revision: revisionOf(*doc.UpdatedAt),
		Value:    *doc.Value, ListBytes: wire.ListBytes(*doc.Value), CreatedAt: *doc.CreatedAt, WrittenAt: *doc.UpdatedAt,
		Date: dateOf(answer.header),
	}, nil
}

// revisionOf returns a revision made from a version's time, in microseconds: BotWire has no other
// number.
func revisionOf(updatedAt float64) uint64 {
	return uint64(max(1, min(updatedAt*1e6, 1<<53)))
}

// entryURL does not clean the path: "." and ".." are keys.
func (c *Client) entryURL(id journal.ID) string {
	return c.base + "/memory/" + id.Namespace + "/" + id.Key
}
