package main

import (
	"bufio"
	"bytes"
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

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/sse"
)

const (
	// answerTimeout bounds one request to the daemon.
	answerTimeout = 2 * time.Minute
	// firstByteTimeout bounds the time until an answer begins, connecting included: twice as long as a
	// read waits for upstream.
	firstByteTimeout = 10 * time.Second
	// maxAnswer bounds an answer, in bytes: another program at the address must not
	// fill the memory.
	maxAnswer = 256 << 20
	// streamSilence is how long a stream of events may be silent: the daemon shows every 15 seconds
	// that it lives.
	streamSilence = 45 * time.Second
	// maxEvent bounds an event of a stream, in bytes.
	maxEvent = 4 << 20
	// maxLine bounds a line of an export, in bytes. The largest one that botwired makes, of
	// 100,000 control characters, takes a sixth of that.
	maxLine = 4 << 20
)

// errStreamEnded says that the daemon has ended a stream, as it does when it stops.
var errStreamEnded = errors.New("botwired has ended the stream")

// errSilent says that nobody answers, though somebody listens.
var errSilent = errors.New("the program that listens there hangs, or is stopped, or is not botwired")

// client talks to the running daemon that the configuration describes.
type client struct {
	http      http.Client
	dial      func(context.Context) (net.Conn, error)
	host      string // the authority of its URLs, which becomes the Host header
	listen    string // for messages: the address and its source
	token     string
	firstByte time.Duration // firstByteTimeout
	from      string        // for messages: the token's file
}

func newClient(loaded *config.Loaded) (*client, error) {
	token, err := loaded.Config.Token()
	if err != nil {
		return nil, err
	}
	c := &client{
		host:   dialable(loaded.Config.Listen),
		listen: fmt.Sprintf("%s (setting listen, %s)", loaded.Config.Listen, loaded.Source("listen")),
		token:  token,

		firstByte: firstByteTimeout,
		from:      loaded.Config.Auth.TokenFile,
	}
	network, address := "tcp", c.host
	if socket, ok := loaded.Config.Socket(); ok {
		c.host, network, address = "localhost", "unix", socket
	}
	c.dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, address) }
	transport := &http.Transport{ // and no proxy, whatever the environment says
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
	}
	c.http = http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// connect loads the configuration and makes a client of it.
func (f *settingFlags) connect() (*client, error) {
	loaded, err := f.load(nil)
	if err != nil {
		return nil, err
	}
	return newClient(loaded)
}

// show asks the daemon, and has print judge the answer and print it.
func (f *settingFlags) show(ctx context.Context, r request, print func(io.Writer, *client, []byte) error) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	body, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	return print(f.process.screen(), c, body)
}

// dialable turns an address to listen on into one to connect to: loopback reaches a
// listener on all interfaces.
func dialable(listen string) string {
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

// request is one request to the daemon. The path is in segments, and each arrives as it
// is, even "..".
type request struct {
	method string
	path   []string
	query  url.Values
	header http.Header
	body   []byte  // JSON, or nil
	etag   *string // is set to the answer's, if not nil
	// patience is how long the daemon was asked to wait before it answers.
	patience time.Duration
}

// statusError is an answer with another status than 2xx.
type statusError struct {
	status int
	body   []byte
	from   string
	means  string // what it means to somebody at a shell; "" where the detail says that
}

// Error returns the answer's detail, or what it means.
func (r *statusError) Error() string {
	detail := r.detail()
	switch {
	case r.means != "":
		return r.means
	case detail == "":
		return fmt.Sprintf("HTTP %d from %s: another program than botwired listens there", r.status, r.from)
	}
	return fmt.Sprintf("%s (HTTP %d)", detail, r.status)
}

// detail is empty if the answer has none. BotWire's 422 has a list, of which the messages
// are shown.
func (r *statusError) detail() string {
	var answer struct {
		Detail json.RawMessage `json:"detail"`
	}
	var text string
	if json.Unmarshal(r.body, &answer) != nil || json.Unmarshal(answer.Detail, &text) == nil {
		return text
	}
	var faults []struct {
		Loc []cell `json:"loc"`
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
		said = append(said, string(f.Loc[len(f.Loc)-1])+": "+f.Msg)
	}
	return strings.Join(said, "; ")
}

// do returns the body of a 2xx answer, which is JSON. Any other answer is a
// *statusError.
func (c *client) do(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return c.wait(ctx, r, c.firstByte+r.patience)
}

// wait is do without a limit of its own, but for the time until the answer begins.
func (c *client) wait(ctx context.Context, r request, firstByte time.Duration) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.send(ctx, cancel, r, firstByte)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if len(body) > maxAnswer || !json.Valid(body) {
		return nil, c.foreign()
	}
	if r.etag != nil {
		*r.etag = resp.Header.Get("ETag")
	}
	return body, nil
}

// send returns an answer whose status is 2xx.
func (c *client) send(ctx context.Context, cancel context.CancelCauseFunc, r request, firstByte time.Duration) (*http.Response, error) {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	silent := time.AfterFunc(firstByte, func() { cancel(errSilent) })
	resp, err := c.http.Do(req)
	silent.Stop()
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return nil, fmt.Errorf("no answer came from %s within %s: %w", c.listen, config.FormatDuration(firstByte), errSilent)
	}
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return nil, c.refusal(r, resp, body)
}

// lines visits the lines of an answer of JSON Lines, without their ends, for as long as it
// comes. A line is valid during the visit.
func (c *client) lines(ctx context.Context, r request, visit func(line []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.send(ctx, cancel, r, c.firstByte+r.patience)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	scanner := bufio.NewScanner(resp.Body)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		if !json.Valid(scanner.Bytes()) {
			return c.foreign()
		}
		if err := visit(scanner.Bytes()); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return c.unreachable(ctx, err)
	}
	return nil
}

// events calls opened once a stream of events has begun, and visit with each event. It returns
// visit's error, or why the stream has ended.
func (c *client) events(ctx context.Context, r request, opened func(), visit func(sse.Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.send(ctx, cancel, r, c.firstByte)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != sse.ContentType {
		return c.foreign()
	}
	opened()
	silent := time.AfterFunc(streamSilence, func() { cancel(errSilent) })
	defer silent.Stop()
	events := sse.NewReader(resp.Body, maxEvent)
	events.Heard = func() { silent.Reset(streamSilence) }
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return errStreamEnded
		case errors.Is(context.Cause(ctx), errSilent):
			return errSilent
		case err != nil:
			return c.unreachable(ctx, err)
		}
		if err := visit(event); err != nil {
			return err
		}
	}
}

// refusal says what an answer with another status than 2xx means where its detail, which is
// for those who speak HTTP, does not help at a shell.
func (c *client) refusal(r request, resp *http.Response, body []byte) error {
	refused := &statusError{status: resp.StatusCode, body: body, from: c.listen}
	own := r.path[0] == surface()[0]
	// The daemon's own challenge is for its token. Any other 401 is upstream's.
	challenged := own || slices.ContainsFunc(resp.Header.Values("WWW-Authenticate"), func(challenge string) bool {
		return strings.HasPrefix(challenge, "Bearer")
	})
	switch {
	case refused.status == http.StatusUnauthorized && challenged && c.token == "":
		refused.means = "a token is needed (HTTP 401): name the file that holds it with --auth-token-file or BOTWIRED_AUTH_TOKEN_FILE"
	case refused.status == http.StatusUnauthorized && challenged:
		refused.means = fmt.Sprintf("botwired at %s does not accept the token in %s (HTTP 401): --auth-token-file or "+
			"BOTWIRED_AUTH_TOKEN_FILE names the file that holds the daemon's", c.listen, c.from)
	case refused.status == http.StatusNotFound && own && refused.detail() == "Not Found":
		refused.means = fmt.Sprintf("another program than botwired listens at %s, such as botwired selfhost: it does not know /%s (HTTP 404); "+
			"say with --listen where the daemon is", c.listen, joinNames(r.path...))
	}
	return refused
}

// agentPrefix begins the User-Agent of botwired's commands: the status tells them from agents.
const agentPrefix = "botwired/"

func (c *client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	u := &url.URL{Scheme: "http", Host: c.host, RawQuery: r.query.Encode()}
	for _, segment := range r.path {
		u.Path += "/" + segment
		u.RawPath += "/" + url.PathEscape(segment)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", agentPrefix+buildVersion())
	maps.Copy(req.Header, r.header)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

func (c *client) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, which names namespace and key
	}
	return fmt.Errorf("cannot reach botwired at %s: %w", c.listen, notReached(err))
}

// decode reads an answer of the daemon.
func (c *client) decode(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return c.foreign()
	}
	return nil
}

// foreign is the error for an answer that is not botwired's.
func (c *client) foreign() error {
	return fmt.Errorf("another program than botwired listens at %s: its answer is not one of botwired's", c.listen)
}

// surface returns a path of the daemon's own surface.
func surface(segments ...string) []string { return append([]string{"_botwired"}, segments...) }

// isMissing reports whether the answer was 404.
func isMissing(err error) bool {
	var r *statusError
	return errors.As(err, &r) && r.status == http.StatusNotFound
}

func joinNames(names ...string) string { return strings.Join(names, "/") }
