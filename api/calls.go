package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	answer, err := c.Do(ctx, r)
	if late, ok := errors.AsType[*Refused](err); ok && late.Status == http.StatusGatewayTimeout {
		answer = &Answer{late.Header, late.Body}
	} else if err != nil {
		return nil, err
	}
	var flushed struct {
		Flushed
		Pending *int `json:"pending"`
	}
	if json.Unmarshal(answer.Body, &flushed) != nil || flushed.Pending == nil { // a proxy may also answer with 504
		return nil, cmp.Or(err, c.explain(r, ErrForeign))
	}
	if flushed.Flushed.Pending = *flushed.Pending; *flushed.Pending == 0 && err != nil {
		return nil, errors.New("the daemon has not read its journal yet, and does not know what is pending")
	}
	return &flushed.Flushed, nil
}

// Receipt returns what happened to a write. If there is no receipt, the error is a *[Refused] with 404.
func (c *Client) Receipt(ctx context.Context, seq uint64) (*Receipt, error) {
	r := &Receipt{}
	_, err := c.Read(ctx, Request{Path: Surface("receipts", strconv.FormatUint(seq, 10))}, r)
	return r, err
}

// listPage is how many rows of a list one request asks for.
const listPage = 1000

// DeadLetters returns all dead letters, oldest first.
func (c *Client) DeadLetters(ctx context.Context) (all []ListedDeadLetter, err error) {
	r := Request{Path: Surface("dead-letters"), Query: url.Values{"limit": {strconv.Itoa(listPage)}}}
	all = []ListedDeadLetter{}
	for {
		var page DeadLetters
		if _, err := c.Read(ctx, r, &page); err != nil {
			return nil, err
		}
		all = append(all, page.DeadLetters...)
		if len(page.DeadLetters) < listPage {
			return all, nil
		}
		last := all[len(all)-1].ID
		if last == r.Query.Get("after") {
			return nil, c.explain(r, ErrForeign) // otherwise this loop would never end
		}
		r.Query.Set("after", last)
	}
}

// Namespaces returns the namespaces in which the daemon knows entries, by name.
func (c *Client) Namespaces(ctx context.Context) (all []Namespace, err error) {
	r := Request{Path: Surface("namespaces"), Query: url.Values{"limit": {strconv.Itoa(listPage)}}}
	for {
		var page Namespaces
		if _, err := c.Read(ctx, r, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Namespaces...)
		if page.Next == nil {
			return all, nil
		}
		if *page.Next <= r.Query.Get("after") {
			return nil, c.explain(r, ErrForeign) // otherwise this loop would never end
		}
		r.Query.Set("after", *page.Next)
	}
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
	body, err := json.Marshal(map[string]string{"value": value})
	if err != nil {
		return 0, err
	}
	return c.write(ctx, Request{Method: http.MethodPut, Path: Memory(namespace, key), Body: body})
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
