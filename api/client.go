// Package api has the documents of the daemon's own HTTP API, /_botwired/, and a client for them.
//
// The daemon answers with these types, botwired's commands read them, and openapi.yaml describes them:
// see docs/http.md. A program that reads them must ignore unknown fields. Times are UTC with
// milliseconds, unless a field says that it is in Unix seconds.
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
	"slices"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/sse"
	"github.com/botwired/botwired/internal/wire"
)

const (
	// FirstByte is how long a client waits for the beginning of an answer, connecting included: twice
	// as long as a read waits for upstream.
	FirstByte = 10 * time.Second
	// wholeAnswer is how long the rest of an answer may take.
	wholeAnswer = 2 * time.Minute
	// maxAnswer limits an answer, in bytes: another program at the address must not fill the memory.
	maxAnswer = 64 << 20
	// maxRefusal limits the part that is read of an answer with another status than 2xx, in bytes.
	maxRefusal = 1 << 20
	// streamSilence is how long a stream of events may be silent: the daemon sends a sign of life every
	// 15 seconds.
	streamSilence = 45 * time.Second
	// maxEvent limits an event of a stream, in bytes.
	maxEvent = 4 << 20
	// MaxLine limits a line of an export, in bytes. botwired's largest line, with 100,000 control
	// characters, takes a sixth of it.
	MaxLine = 4 << 20
)

var (
	// ErrForeign means that the answer is from another program than botwired.
	ErrForeign = errors.New("the answer is not one of botwired's")
	// ErrSilent means that the program at the address accepts connections but does not answer.
	ErrSilent = errors.New("the program that listens there hangs, or is stopped, or is not botwired")
	// ErrStreamEnded means that the daemon ended the stream, as it does when it stops.
	ErrStreamEnded = errors.New("botwired has ended the stream")
)

// Options configures a client.
type Options struct {
	// Listen is the daemon's address as in the setting listen: an address such as 127.0.0.1:2689, or a
	// socket's path such as unix:///run/botwired.sock. It may be empty with a Transport.
	Listen    string
	Token     string // empty if the daemon needs none
	UserAgent string // names the program in the daemon's status
	Author    string // names the program in the history of what it writes; empty: UserAgent does
	// FirstByte is how long the daemon may take to begin its answer, unless the request sets Within; 0
	// means [FirstByte].
	FirstByte time.Duration
	// Explain, if not nil, rewrites an error for people. Its result wraps or replaces the error.
	Explain func(r Request, err error) error
	// Transport sends the requests. Nil means [Transport] of Listen.
	Transport http.RoundTripper
}

// Client sends requests to a daemon. It is safe for concurrent use. If the answer's status is not 2xx,
// the error is a *[Refused]; otherwise there was no answer, or the answer was not botwired's.
// [Options].Explain may change the error. No error contains a request's URL, because the URL names an
// entry.
type Client struct {
	http             http.Client
	host             string // the authority of its URLs, and the Host header
	token, userAgent string
	author           string
	firstByte        time.Duration
	explain          func(Request, error) error
}

// NewClient returns a client. It connects at its first request.
func NewClient(o Options) *Client {
	c := &Client{
		host: Host(o.Listen), token: o.Token, userAgent: o.UserAgent, author: o.Author, firstByte: cmp.Or(o.FirstByte, FirstByte), explain: o.Explain,
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

// Host returns the authority of URLs for a daemon. It is loopback if the daemon listens on all
// interfaces. For a socket it is localhost: any name would do.
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

// Transport returns a transport that connects only to the daemon, and uses no proxy.
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
	Method string   // "" means GET
	Path   []string // segments: each is sent as it is, even ".."
	Query  url.Values
	Header http.Header
	Body   []byte // JSON, or nil
	// Within is how long the daemon may take to begin its answer; 0 means the client's FirstByte. If
	// the request makes the daemon wait, Within must be longer than that wait.
	Within time.Duration
}

// Surface returns a path below /_botwired/.
func Surface(segments ...string) []string { return append([]string{"_botwired"}, segments...) }

// Memory returns the path of an entry, or of a namespace.
func Memory(names ...string) []string { return append([]string{"memory"}, names...) }

// Answer is an answer with a 2xx status.
type Answer struct {
	Header http.Header
	Body   []byte // valid JSON
}

// Refused is an answer with any other status.
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

// Detail returns why the daemon refused the request, or "" if the answer does not say. For BotWire's
// 422, it returns the messages in the list of faults.
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

// The remedies that the status, the commands and the MCP tools name.
const (
	RemedyAccess = "look at upstream.url and upstream.headers"
	RemedyRoom   = "delete entries that are not needed, or have upstream give the namespace more room"
)

// WantsToken reports whether the daemon itself refuses the request because it wants its token.
func (r *Refused) WantsToken() bool {
	return r.Status == http.StatusUnauthorized && slices.ContainsFunc(r.Header.Values("WWW-Authenticate"), func(challenge string) bool {
		return strings.HasPrefix(challenge, "Bearer")
	})
}

// Meaning returns what a refusal of upstream's means, which the daemon has passed on, and what to do. It returns "" for
// other refusals: the daemon's own say it themselves.
func (r *Refused) Meaning() string {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		if detail := r.Detail(); !r.WantsToken() && !strings.Contains(detail, "allowed_hosts") && !strings.Contains(detail, "allowed_origins") {
			return "upstream does not let this in: " + RemedyAccess
		}
	case http.StatusTooManyRequests:
		return "upstream throttles this: wait before you try again"
	case http.StatusUnprocessableEntity:
		return "BotWire does not take this: change the namespace, the key or the value"
	case http.StatusRequestEntityTooLarge:
		// The others are about the size of one value or body, and say themselves what fits.
		speaks := func(word string) bool { return strings.Contains(strings.ToLower(r.Detail()), word) }
		if speaks("full") || speaks("storage") || speaks("quota") {
			return "there is no room for this: " + RemedyRoom
		}
	}
	return ""
}

// IsRefused reports whether an error is a [Refused] with this status.
func IsRefused(err error, status int) bool {
	refused, ok := errors.AsType[*Refused](err)
	return ok && refused.Status == status
}

// IsAbsent reports whether an error says that there is no such entry. A 404 of another program says nothing of it.
func IsAbsent(err error, namespace, key string) bool {
	refused, ok := errors.AsType[*Refused](err)
	return ok && refused.Status == http.StatusNotFound && refused.Detail() == wire.NotFoundDetail(namespace, key) // guard 9.77
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

// Read makes a request, decodes the answer into into, and returns the answer.
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

// send makes a request. It returns only answers with a 2xx status.
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
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
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
	if c.author != "" {
		req.Header.Set(wire.AuthorHeader, c.author)
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

// unanswered returns why there was no answer, without the URL.
func unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// Lines calls visit for each line of a JSON Lines answer, as they arrive. A line has no line end, is
// valid JSON, and may only be used during the call.
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
			if scanner.Err() != nil {
				break // the answer was cut off amid this line
			}
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

// Event is an event in a stream. Its name tells the type of its data.
type Event struct {
	Name string
	Data []byte
}

// Events calls opened when a stream of events has begun, and visit for each event. It returns visit's
// error, or why the stream ended.
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
		silent.Stop() // visit may wait for its own reader
		if err := visit(Event{event.Name, event.Data}); err != nil {
			return err
		}
		silent.Reset(streamSilence)
	}
}
