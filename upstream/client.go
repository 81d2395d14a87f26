package upstream

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

const (
	// maxAnswer bounds what is read of an answer. The largest entry is 100,000 code
	// points, 12 bytes each when escaped; a listing of 1,000 keys is far smaller.
	maxAnswer = 4 << 20
	// listLimit is the most keys that upstream lists.
	listLimit = 1000
	// idleFor is how long an unused connection is kept.
	idleFor = 90 * time.Second
	// maxResponseHeader bounds the header of an answer, in bytes.
	maxResponseHeader = 64 << 10
)

// ClientOptions configures a client.
type ClientOptions struct {
	// URL is the service's base: scheme, host and perhaps a path.
	URL *url.URL
	// Timeout bounds one request, its answer included.
	Timeout time.Duration
	// Headers are sent with every request.
	Headers http.Header
	// Concurrency is how many connections are kept open.
	Concurrency int
	// UserAgent names this program.
	UserAgent string
	// Dial, if not nil, connects in place of the network: the embedded upstream.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Client makes single requests to upstream. It never retries, never follows a
// redirect and never believes an answer that is not BotWire's. It may be used
// concurrently.
type Client struct {
	opts ClientOptions
	base string // scheme, host and path, without a slash at the end
	http *http.Client
}

// NewClient returns a client; Close releases its connections.
func NewClient(opts ClientOptions) *Client {
	return &Client{
		opts: opts,
		base: opts.URL.Scheme + "://" + opts.URL.Host + strings.TrimSuffix(opts.URL.EscapedPath(), "/"),
		http: &http.Client{
			Transport: newTransport(opts),
			CheckRedirect: func(*http.Request, []*http.Request) error {
				// A redirected PUT would go on as a GET and end in a 200 (contract 15).
				return http.ErrUseLastResponse
			},
		},
	}
}

// newTransport is HTTP/1.1 only: one request a connection makes it certain whether a
// request that failed was sent.
func newTransport(opts ClientOptions) *http.Transport {
	dialer := &net.Dialer{Timeout: opts.Timeout}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    opts.Timeout,
		MaxIdleConns:           2 * opts.Concurrency,
		MaxIdleConnsPerHost:    2 * opts.Concurrency,
		IdleConnTimeout:        idleFor,
		ResponseHeaderTimeout:  opts.Timeout, // for what is passed on, which has no other
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if opts.Dial != nil {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return opts.Dial(ctx) }
	}
	return t
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Send carries a write upstream, once.
func (c *Client) Send(ctx context.Context, w journal.Write) Outcome {
	method, body := http.MethodDelete, []byte(nil)
	if w.Op == journal.Put {
		var err error
		method = http.MethodPut
		if body, err = json.Marshal(map[string]string{"value": w.Value}); err != nil {
			return Outcome{Verdict: Refused, Reason: "value cannot be encoded"}
		}
	}
	answer, err := c.do(ctx, method, c.entryURL(w.ID), body)
	if err != nil {
		return err.outcome()
	}
	if confirms(answer, w) {
		return Outcome{Verdict: Confirmed, Status: answer.status}
	}
	return answer.failure().outcome()
}

// Get asks for an entry; nil without an error means that upstream does not hold it.
// Errors are *[RequestError].
func (c *Client) Get(ctx context.Context, id journal.ID) (*journal.Observation, error) {
	answer, failed := c.do(ctx, http.MethodGet, c.entryURL(id), nil)
	if failed != nil {
		return nil, failed
	}
	var doc struct {
		Namespace, Key, Detail string
		Value                  *string
		CreatedAt              *float64 `json:"created_at"`
		UpdatedAt              *float64 `json:"updated_at"`
	}
	ok := answer.decode(&doc)
	if ok && answer.status == http.StatusNotFound && doc.Detail == wire.NotFoundDetail(id.Namespace, id.Key) {
		return nil, nil
	}
	if !ok || answer.status != http.StatusOK || doc.Namespace != id.Namespace || doc.Key != id.Key ||
		doc.Value == nil || doc.CreatedAt == nil || doc.UpdatedAt == nil {
		return nil, answer.failure()
	}
	return &journal.Observation{
		Value: *doc.Value, ListBytes: wire.ListBytes(*doc.Value), CreatedAt: *doc.CreatedAt, UpdatedAt: *doc.UpdatedAt,
	}, nil
}

// List asks for all keys of a namespace that upstream can list; complete is false if
// there may be more. Errors are *[RequestError].
func (c *Client) List(ctx context.Context, namespace string) (rows []journal.Row, complete bool, err error) {
	answer, failed := c.do(ctx, http.MethodGet, c.base+"/memory/"+namespace+"?limit="+strconv.Itoa(listLimit), nil)
	if failed != nil {
		return nil, false, failed
	}
	var doc struct {
		Namespace string
		Count     *int
		Keys      []struct {
			Key       string
			Bytes     int
			UpdatedAt float64 `json:"updated_at"`
		}
	}
	if !answer.decode(&doc) || answer.status != http.StatusOK || doc.Namespace != namespace ||
		doc.Count == nil || *doc.Count != len(doc.Keys) {
		return nil, false, answer.failure()
	}
	for _, k := range doc.Keys {
		rows = append(rows, journal.Row{Key: k.Key, ListBytes: k.Bytes, UpdatedAt: k.UpdatedAt})
	}
	return rows, len(rows) < listLimit, nil
}

// entryURL does not clean: "." and ".." are keys.
func (c *Client) entryURL(id journal.ID) string {
	return c.base + "/memory/" + id.Namespace + "/" + id.Key
}
