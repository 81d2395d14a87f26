package mcp

import (
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
	"strings"
	"time"
)

const (
	// maxAnswer bounds an answer of the daemon, in bytes. The largest has two values of 100,000
	// control characters, which JSON escapes.
	maxAnswer = 4 << 20
	// callTime bounds one request to the daemon.
	callTime = time.Minute
)

// daemon makes requests to a daemon.
type daemon struct {
	http  *http.Client
	url   string // without a slash at the end
	token string
	agent string
}

func newDaemon(o Options) *daemon {
	return &daemon{http: o.Client, url: strings.TrimRight(o.URL, "/"), token: o.Token, agent: "botwired-mcp/" + o.Version}
}

// request is one request. The path is in segments, and each arrives as it is, even "..".
type request struct {
	method string // empty is GET
	path   []string
	query  url.Values
	header http.Header
	body   any // for JSON, or nil
}

// memory returns the path of an entry.
func memory(namespace, key string) []string { return []string{"memory", namespace, key} }

// surface returns a path of the daemon's own surface.
func surface(segments ...string) []string { return append([]string{"_botwired"}, segments...) }

// refusal is an answer of the daemon with another status than 2xx.
type refusal struct {
	status     int
	detail     string
	retryAfter string // seconds; empty if the daemon does not say
}

// do makes a request and decodes the answer into what into points to. An error is for the agent.
func (d *daemon) do(ctx context.Context, r request, into any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	req, err := d.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, unreached(ctx, r, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unreached(ctx, r, err)
	case len(body) <= maxAnswer && resp.StatusCode/100 != 2:
		return nil, newRefusal(resp, body)
	case len(body) > maxAnswer || json.Unmarshal(body, into) != nil:
		return nil, errForeign
	}
	return resp.Header, nil
}

func (d *daemon) newRequest(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		encoded, err := encode(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	target := d.url
	for _, segment := range r.path {
		target += "/" + url.PathEscape(segment)
	}
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.header)
	req.Header.Set("User-Agent", d.agent)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	return req, nil
}

// encode makes JSON in which < and & are themselves.
func encode(document any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

var errForeign = errors.New("the program at the daemon's address is not botwired: its answer is not one of botwired's")

// unreached is the error of a request without an answer. It does not have the URL, which names
// the entry.
func unreached(ctx context.Context, r request, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if ctx.Err() != nil {
		err = errors.New("it did not answer in time")
	}
	var op *net.OpError
	if r.method == "" || errors.As(err, &op) && op.Op == "dial" { // the daemon has not seen it
		return fmt.Errorf("cannot reach the botwired daemon: %w: check that it runs, and try again", err)
	}
	return fmt.Errorf("the botwired daemon has not answered: %w: "+
		"the write may have been made, or not: read the entry before you try again", err)
}

func newRefusal(resp *http.Response, body []byte) *refusal {
	var doc struct {
		Detail any `json:"detail"`
	}
	r := &refusal{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
	if json.Unmarshal(body, &doc) == nil {
		r.detail, _ = doc.Detail.(string) // BotWire's 422 echoes the value, and has no text here
	}
	return r
}

// meanings says what a status means to an agent. Of the others the daemon's detail says it.
var meanings = map[int]string{
	http.StatusUnauthorized:          "the botwired daemon wants its token, and this server has another one or none: a person has to set it",
	http.StatusRequestEntityTooLarge: "there is no room: nothing was written",
	http.StatusTooManyRequests:       "too many requests: nothing was written",
	http.StatusServiceUnavailable:    "upstream cannot be asked now, and nothing here answers this",
	http.StatusInsufficientStorage:   "botwired's disk or journal is full: nothing was written, and reading still works",
	http.StatusBadGateway:            "upstream failed: a write may have been made, or not: read the entry before you try again",
	http.StatusGatewayTimeout:        "upstream did not answer: a write may have been made, or not: read the entry before you try again",
}

func (r *refusal) Error() string {
	text := r.detail
	if means := meanings[r.status]; means != "" {
		text = strings.TrimSuffix(means+" ("+r.detail+")", " ()")
	}
	if text == "" {
		text = fmt.Sprintf("the botwired daemon has refused this with status %d", r.status)
	}
	if r.retryAfter != "" {
		text += ": try again in " + r.retryAfter + " s"
	}
	return text
}

// isRefused reports whether an error is an answer with a status.
func isRefused(err error, status int) bool {
	var r *refusal
	return errors.As(err, &r) && r.status == status
}
