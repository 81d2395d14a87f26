package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

const (
	// maxAnswer bounds what is read of an answer. The largest entry is 100,000 code
	// points, 12 bytes each when escaped; a listing of 1,000 keys is far smaller.
	maxAnswer = 4 << 20
	// maxReason bounds what is kept of an answer's text as the reason of a failure.
	maxReason = 200
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
	out := Outcome{Verdict: classify(answer.status), Status: answer.status, Reason: answer.reason()}
	out.RetryAfter = retryAfter(answer.header, time.Now())
	return out
}

// confirms reports whether an answer is BotWire's own word that it holds the write.
func confirms(a *answer, w journal.Write) bool {
	var doc struct {
		Namespace, Key, Detail string
		Stored, Deleted        bool
	}
	if !a.decode(&doc) {
		return false
	}
	named := doc.Namespace == w.Namespace && doc.Key == w.Key
	if w.Op == journal.Put {
		return a.status == http.StatusOK && named && doc.Stored
	}
	if a.status == http.StatusNotFound {
		return doc.Detail == notFound(w.ID)
	}
	return a.status == http.StatusOK && named && doc.Deleted
}

// notFound is what BotWire says of an entry that it does not hold.
func notFound(id journal.ID) string { return "Key not found: " + id.String() }

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
	if ok && answer.status == http.StatusNotFound && doc.Detail == notFound(id) {
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
	if !answer.decode(&doc) || answer.status != http.StatusOK || doc.Namespace != namespace || doc.Count == nil {
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

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) decode(doc any) bool { return json.Unmarshal(a.body, doc) == nil }

// reason is what the answer says, cut short: BotWire's detail if it is one.
func (a *answer) reason() string {
	var doc struct{ Detail string }
	text := "an answer that is not BotWire's"
	if a.decode(&doc) && doc.Detail != "" {
		text = doc.Detail
	}
	return fmt.Sprintf("HTTP %d: %.*s", a.status, maxReason, text)
}

func (a *answer) failure() *RequestError {
	return &RequestError{
		verdict: classify(a.status), status: a.status,
		retryAfter: retryAfter(a.header, time.Now()), err: errors.New(a.reason()),
	}
}

// RequestError is a request that brought no usable answer.
type RequestError struct {
	verdict    Verdict
	status     int
	retryAfter time.Duration
	err        error
}

func (e *RequestError) Error() string { return e.err.Error() }
func (e *RequestError) Unwrap() error { return e.err }

func (e *RequestError) outcome() Outcome {
	return Outcome{Verdict: e.verdict, Status: e.status, Reason: e.err.Error(), RetryAfter: e.retryAfter}
}

// do makes one request. Its failure is Unsent when the request cannot have arrived
// whole, and Unanswered otherwise.
func (c *Client) do(ctx context.Context, method, target string, body []byte) (*answer, *RequestError) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	var sent atomic.Bool
	req, err := c.request(httptrace.WithClientTrace(ctx, traceSent(&sent)), method, target, body)
	if err != nil {
		return nil, &RequestError{verdict: Unsent, err: err}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, failure(err, sent.Load())
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, failure(err, true)
	}
	return &answer{resp.StatusCode, resp.Header, data}, nil
}

// traceSent sets sent while a request may have reached upstream whole: from the
// moment it has a connection, unless writing it fails. A write that fails has not
// handed over all of it, and upstream waits for the rest in vain.
func traceSent(sent *atomic.Bool) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { sent.Store(true) },
		WroteRequest: func(info httptrace.WroteRequestInfo) { sent.Store(info.Err == nil) },
	}
}

func failure(err error, sent bool) *RequestError {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the URL is upstream's and known
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time")
	}
	if sent {
		return &RequestError{verdict: Unanswered, err: err}
	}
	return &RequestError{verdict: Unsent, err: err}
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
