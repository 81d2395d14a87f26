package api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/sse"
)

const (
	// FirstByte is how long a client waits for an answer to begin, connecting included: twice as long as
	// a read waits for upstream.
	FirstByte = 10 * time.Second
	// wholeAnswer is how long an answer may take then.
	wholeAnswer = 2 * time.Minute
	// maxAnswer bounds an answer, in bytes: another program at the address must not fill the memory.
	maxAnswer = 256 << 20
	// streamSilence is how long a stream of events may be silent: the daemon shows every 15 seconds
	// that it lives.
	streamSilence = 45 * time.Second
	// maxEvent bounds an event of a stream, in bytes.
	maxEvent = 4 << 20
	// MaxLine bounds a line of an export, in bytes. The largest one that botwired makes, of
	// 100,000 control characters, takes a sixth of that.
	MaxLine = 4 << 20
)

var (
	// ErrForeign says that an answer is not botwired's: another program listens there.
	ErrForeign = errors.New("the answer is not one of botwired's")
	// ErrSilent says that nobody answers, though somebody listens.
	ErrSilent = errors.New("the program that listens there hangs, or is stopped, or is not botwired")
	// ErrStreamEnded says that the daemon has ended a stream, as it does when it stops.
	ErrStreamEnded = errors.New("botwired has ended the stream")
)

// Options configures a client.
type Options struct {
	// Listen is where the daemon listens, as the setting listen has it: an address such as
	// 127.0.0.1:2689, or the path of a socket such as unix:///run/botwired.sock. A Transport may do without.
	Listen    string
	Token     string // empty if the daemon wants none
	UserAgent string // by which the daemon's status knows the program
	// FirstByte is how long the daemon may take until its answer begins, unless a request says; 0 is
	// [FirstByte].
	FirstByte time.Duration
	// Explain, if not nil, puts an error into words for those who see it. What it returns wraps the error,
	// or takes its place.
	Explain func(r Request, err error) error
	// Transport carries the requests. Nil is [Transport] of Listen.
	Transport http.RoundTripper
}

// Client asks a daemon. Several goroutines may use it at once. An error is a *[Refused] if the daemon has
// refused a request; else there was no answer, or it was not botwired's. No error has the URL of a
// request, which names an entry.
type Client struct {
	http             http.Client
	host             string // the authority of its URLs, which becomes the Host header
	token, userAgent string
	firstByte        time.Duration
	explain          func(Request, error) error
}

// NewClient returns a client. It connects with its first request.
func NewClient(o Options) *Client {
	c := &Client{
		host: Host(o.Listen), token: o.Token, userAgent: o.UserAgent, firstByte: cmp.Or(o.FirstByte, FirstByte), explain: o.Explain,
	}
	if c.explain == nil {
		c.explain = func(_ Request, err error) error { return err }
	}
	if o.Transport == nil {
		o.Transport = Transport(o.Listen)
	}
	c.http = http.Client{
		Transport:     o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Host returns the authority of the URLs that lead to a daemon: loopback reaches one that listens on all
// interfaces. A socket has no address, and takes any.
func Host(listen string) string {
	if listen == "" || strings.HasPrefix(listen, socketScheme) {
		return "localhost"
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	switch ip := net.ParseIP(host); {
	case host == "" || ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

const socketScheme = "unix://"

// Transport returns a transport whose connections all lead to a daemon, past every proxy.
func Transport(listen string) *http.Transport {
	network, address := "tcp", Host(listen)
	if socket, ok := strings.CutPrefix(listen, socketScheme); ok {
		network, address = "unix", socket
	}
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// Request is one request to the daemon.
type Request struct {
	Method string   // empty is GET
	Path   []string // in segments: each arrives as it is, even ".."
	Query  url.Values
	Header http.Header
	Body   []byte // JSON, or nil
	// Within is how long the daemon may take until its answer begins; 0 is the client's FirstByte. A request
	// that has the daemon wait needs as much, and some more.
	Within time.Duration
}

// Surface returns a path beneath /_botwired/.
func Surface(segments ...string) []string { return append([]string{"_botwired"}, segments...) }

// Memory returns the path of an entry, or of a namespace.
func Memory(names ...string) []string { return append([]string{"memory"}, names...) }

// Answer is an answer with a status of 2xx.
type Answer struct {
	Header http.Header
	Body   []byte // valid JSON
}

// Refused is an answer with another status than 2xx.
type Refused struct {
	Status int
	Header http.Header
	Body   []byte
}

// Error returns the answer's detail and status.
func (r *Refused) Error() string {
	detail := r.Detail()
	if detail == "" {
		return fmt.Sprintf("HTTP %d from another program than botwired", r.Status)
	}
	return fmt.Sprintf("%s (HTTP %d)", detail, r.Status)
}

// Detail says why the daemon has refused a request; empty if the answer does not. BotWire's 422 has a
// list of faults, whose messages Detail returns.
func (r *Refused) Detail() string {
	var answer struct {
		Detail json.RawMessage `json:"detail"`
	}
	var text string
	if json.Unmarshal(r.Body, &answer) != nil || json.Unmarshal(answer.Detail, &text) == nil {
		return text
	}
	var faults []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(answer.Detail, &faults) != nil {
		return string(answer.Detail)
	}
	var said []string
	for _, f := range faults {
		if f.Msg == "" || len(f.Loc) == 0 {
			return string(answer.Detail)
		}
		said = append(said, fmt.Sprint(f.Loc[len(f.Loc)-1], ": ", f.Msg))
	}
	return strings.Join(said, "; ")
}

// IsRefused reports whether an error is an answer with a status.
func IsRefused(err error, status int) bool {
	refused, ok := errors.AsType[*Refused](err)
	return ok && refused.Status == status
}

// Do makes a request and returns the answer.
func (c *Client) Do(ctx context.Context, r Request) (*Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	whole := time.AfterFunc(cmp.Or(r.Within, c.firstByte)+wholeAnswer, func() { cancel(context.DeadlineExceeded) })
	defer whole.Stop()
	resp, err := c.send(ctx, cancel, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.explain(r, unanswered(ctx, err))
	}
	if len(body) > maxAnswer || !json.Valid(body) {
		return nil, c.explain(r, ErrForeign)
	}
	return &Answer{resp.Header, body}, nil
}

// Read makes a request, decodes the answer into the document that into points to, and returns the answer.
func (c *Client) Read(ctx context.Context, r Request, into any) (*Answer, error) {
	answer, err := c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(answer.Body, into) != nil {
		return nil, c.explain(r, ErrForeign)
	}
	return answer, nil
}

// send returns an answer whose status is 2xx.
func (c *Client) send(ctx context.Context, cancel context.CancelCauseFunc, r Request) (*http.Response, error) {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	silent := time.AfterFunc(cmp.Or(r.Within, c.firstByte), func() { cancel(ErrSilent) })
	resp, err := c.http.Do(req)
	silent.Stop()
	if err != nil {
		return nil, c.explain(r, unanswered(ctx, err))
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.explain(r, unanswered(ctx, err))
	}
	return nil, c.explain(r, &Refused{resp.StatusCode, resp.Header, body})
}

func (c *Client) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	u := &url.URL{Scheme: "http", Host: c.host, RawQuery: r.Query.Encode()}
	for _, segment := range r.Path {
		u.Path += "/" + segment
		u.RawPath += "/" + url.PathEscape(segment)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	if c.userAgent != "" {
		req.Header.Set("User-Agent", c.userAgent)
	}
	maps.Copy(req.Header, r.Header)
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// unanswered returns why no answer came, without the URL.
func unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// Lines visits the lines of an answer of JSON Lines, without their ends, for as long as it
// comes. A line is valid JSON, and only during the visit.
func (c *Client) Lines(ctx context.Context, r Request, visit func(line []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.send(ctx, cancel, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	scanner := bufio.NewScanner(resp.Body)
	scanner.Buffer(nil, MaxLine)
	for scanner.Scan() {
		if !json.Valid(scanner.Bytes()) {
			return c.explain(r, ErrForeign)
		}
		if err := visit(scanner.Bytes()); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return c.explain(r, unanswered(ctx, err))
	}
	return nil
}

// Event is an event of a stream. Its name says which document its data is.
type Event struct {
	Name string
	Data []byte
}

// Events calls opened once a stream of events has begun, and visit with each event. It returns
// visit's error, or why the stream has ended.
func (c *Client) Events(ctx context.Context, r Request, opened func(), visit func(Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.send(ctx, cancel, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != sse.ContentType {
		return c.explain(r, ErrForeign)
	}
	opened()
	silent := time.AfterFunc(streamSilence, func() { cancel(ErrSilent) })
	defer silent.Stop()
	events := sse.NewReader(resp.Body, maxEvent)
	events.Heard = func() { silent.Reset(streamSilence) }
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return ErrStreamEnded
		case errors.Is(context.Cause(ctx), ErrSilent):
			return ErrSilent
		case err != nil:
			return c.explain(r, unanswered(ctx, err))
		}
		if err := visit(Event{event.Name, event.Data}); err != nil {
			return err
		}
	}
}
