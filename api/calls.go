package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Status returns the state of the daemon. It fails with [ErrForeign] if another program answers.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	r := Request{Path: Surface("status")}
	answer, err := c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	s, err := ReadStatus(answer.Body)
	if err != nil {
		return nil, c.explain(r, err)
	}
	return s, nil
}

// ReadStatus decodes the answer to a status request. It fails with [ErrForeign] if the answer is from
// another program: some programs answer every request with JSON.
func ReadStatus(body []byte) (*Status, error) {
	s := &Status{}
	if json.Unmarshal(body, s) != nil || s.Version == "" || s.Upstream.State == "" {
		return nil, ErrForeign
	}
	return s, nil
}

// flushGrace is extra time for the daemon to answer that the flush has timed out.
const flushGrace = 3 * time.Second

// MaxFlush is the longest timeout that the daemon accepts for a flush.
const MaxFlush = time.Hour

// NotReady is the prefix of the detail with which a daemon refuses requests while it opens its journal.
const NotReady = "not ready: "

// Flush makes the daemon send every write acknowledged so far, or those of one namespace. It returns
// when all are settled or dead, after timeout, or when the daemon is stopped: then some are still pending.
// With now, the daemon also sends writes that wait for a time. Flush fails if the daemon does not know yet
// what is pending.
func (c *Client) Flush(ctx context.Context, namespace string, timeout time.Duration, now bool) (*Flushed, error) {
	query := url.Values{"timeout": {timeout.String()}}
	if namespace != "" {
		query.Set("namespace", namespace)
	}
	if now {
		query.Set("now", "true")
	}
	r := Request{Method: http.MethodPost, Path: Surface("flush"), Query: query, Within: timeout + flushGrace}
	var flushed struct {
		Flushed
		Pending *int `json:"pending"`
	}
	_, late, err := c.ReadProgress(ctx, r, &flushed, func() bool { return flushed.Pending != nil })
	switch {
	case err != nil:
		return nil, err
	case flushed.Pending == nil:
		return nil, c.explain(r, ErrForeign)
	case late && *flushed.Pending == 0:
		return nil, errors.New("the daemon has not read its journal yet, and does not know what is pending")
	}
	flushed.Flushed.Pending = *flushed.Pending
	return &flushed.Flushed, nil
}

// ReadProgress reads like [Client.Read], and also takes a 504 with the progress of something that goes on: late is
// true then. ours reports whether into holds such progress, as a proxy may answer with 504, too.
func (c *Client) ReadProgress(ctx context.Context, r Request, into any, ours func() bool) (answer *Answer, late bool, err error) {
	answer, err = c.Read(ctx, r, into)
	refused, ok := errors.AsType[*Refused](err)
	if ok && refused.Status == http.StatusGatewayTimeout && json.Unmarshal(refused.Body, into) == nil && ours() {
		return &Answer{refused.Header, refused.Body}, true, nil
	}
	return answer, false, err
}

// Receipt returns what happened to a write. If there is no receipt, the error is a *[Refused] with 404.
func (c *Client) Receipt(ctx context.Context, seq uint64) (*Receipt, error) {
	r := &Receipt{}
	_, err := c.Read(ctx, Request{Path: Surface("receipts", strconv.FormatUint(seq, 10))}, r)
	return r, err
}

// listPage is how many rows of a list one request asks for.
const listPage = 1000

// pages asks for one page after the other. next returns the parameter after of the next page, or nil.
func pages[T any](ctx context.Context, c *Client, r Request, next func(*T) *string) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for {
			page := new(T)
			_, err := c.Read(ctx, r, page)
			after := next(page)
			if err == nil && after != nil && *after == r.Query.Get("after") {
				err = c.explain(r, ErrForeign) // otherwise this loop would never end
			}
			if !yield(page, err) || err != nil || after == nil {
				return
			}
			r.Query.Set("after", *after)
		}
	}
}

// DeadLetters returns all dead letters, oldest first.
func (c *Client) DeadLetters(ctx context.Context) (all []ListedDeadLetter, err error) {
	r := Request{Path: Surface("dead-letters"), Query: url.Values{"limit": {strconv.Itoa(listPage)}}}
	all = []ListedDeadLetter{}
	for page, err := range pages(ctx, c, r, func(p *DeadLetters) *string {
		if len(p.DeadLetters) < listPage {
			return nil
		}
		return &p.DeadLetters[len(p.DeadLetters)-1].ID
	}) {
		if err != nil {
			return nil, err
		}
		all = append(all, page.DeadLetters...)
	}
	return all, nil
}

// Lost returns all states that have lost a conflict between two hosts, or those of a namespace, the last one first.
func (c *Client) Lost(ctx context.Context, namespace string) (all []LostState, err error) {
	r := Request{Path: Surface("revisions", "lost"), Query: url.Values{"limit": {strconv.Itoa(listPage)}}}
	if namespace != "" {
		r.Query.Set("namespace", namespace)
	}
	all = []LostState{}
	for page, err := range pages(ctx, c, r, func(p *Lost) *string { return p.Next }) {
		if err != nil {
			return nil, err
		}
		all = append(all, page.Lost...)
	}
	return all, nil
}

// Namespaces returns the namespaces in which the daemon knows entries, by name.
func (c *Client) Namespaces(ctx context.Context) (all []Namespace, err error) {
	r := Request{Path: Surface("namespaces"), Query: url.Values{"limit": {strconv.Itoa(listPage)}}}
	for page, err := range pages(ctx, c, r, func(p *Namespaces) *string { return p.Next }) {
		if err != nil {
			return nil, err
		}
		all = append(all, page.Namespaces...)
	}
	return all, nil
}

// EntryPages yields the entries that the daemon knows in a namespace, by key: pages of at most size entries, from
// after on. An error ends them.
func (c *Client) EntryPages(ctx context.Context, namespace, prefix, after string, size int) iter.Seq2[*Entries, error] {
	query := url.Values{"namespace": {namespace}, "prefix": {prefix}, "after": {after}, "limit": {strconv.Itoa(size)}}
	return pages(ctx, c, Request{Path: Surface("entries"), Query: query}, func(p *Entries) *string { return p.Next })
}

// Value is the value of an entry, as in BotWire's own API: GET /memory/NAMESPACE/KEY.
type Value struct {
	Value     string  `json:"value"`
	CreatedAt float64 `json:"created_at"` // Unix seconds
	UpdatedAt float64 `json:"updated_at"` // Unix seconds
}

// Listing lists the newest entries of a namespace, as in BotWire's own API: GET /memory/NAMESPACE.
type Listing struct {
	Keys []Listed `json:"keys"`
}

// Listed is an entry of a listing.
type Listed struct {
	Key       string  `json:"key"`
	Bytes     int     `json:"bytes"`      // in BotWire's count: characters
	UpdatedAt float64 `json:"updated_at"` // Unix seconds
}

// Get reads an entry. If there is none, the error is a *[Refused] with 404.
func (c *Client) Get(ctx context.Context, namespace, key string) (*Value, error) {
	v := &Value{}
	_, err := c.Read(ctx, Request{Path: Memory(namespace, key)}, v)
	return v, err
}

// Put writes an entry, and returns the number of the write, for its receipt.
func (c *Client) Put(ctx context.Context, namespace, key, value string) (seq uint64, err error) {
	return c.write(ctx, Request{Method: http.MethodPut, Path: Memory(namespace, key), Body: ValueBody(value)})
}

// ValueBody returns the body of a request that writes a value.
func ValueBody(value string) []byte {
	body, _ := json.Marshal(map[string]string{"value": value}) // strings always encode
	return body
}

// Delete deletes an entry, and returns the number of the write. If there is no entry, the error is a
// *[Refused] with 404.
func (c *Client) Delete(ctx context.Context, namespace, key string) (seq uint64, err error) {
	return c.write(ctx, Request{Method: http.MethodDelete, Path: Memory(namespace, key)})
}

func (c *Client) write(ctx context.Context, r Request) (seq uint64, err error) {
	answer, err := c.Do(ctx, r)
	if err != nil {
		return 0, err
	}
	text := answer.Header.Get("Botwired-Write")
	_, number, _ := strings.Cut(text, "seq=")
	if seq, err = strconv.ParseUint(number, 10, 64); err != nil {
		return 0, c.explain(r, fmt.Errorf("%w: an acknowledgement with Botwired-Write: %q", ErrForeign, text))
	}
	return seq, nil
}
