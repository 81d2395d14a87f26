//go:build faults && linux

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/botwired/botwired/proof/ask"
)

// namespace is the one that all tests write to.
const namespace = "faults"

// client speaks the memory API to one daemon, or to upstream itself.
type client struct {
	base string
	http *http.Client
}

func newClient(t *testing.T, base string) *client {
	c := &client{base, ask.NewClient()}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// do makes one request; its error means that there was no whole answer.
func (c *client) do(method, path string, body []byte) (status int, answer []byte, err error) {
	a, err := ask.Once(context.Background(), c.http, method, c.base+path, body)
	return a.Status, a.Body, err
}

func entryPath(key string) string { return "/memory/" + namespace + "/" + key }

func (c *client) put(key, value string) (status int, answer []byte, err error) {
	body, err := json.Marshal(map[string]string{"value": value})
	if err != nil {
		return 0, nil, err
	}
	return c.do(http.MethodPut, entryPath(key), body)
}

// unexpected is an answer that no read should get.
type unexpected struct {
	key    string
	status int
	answer []byte
}

func (r *unexpected) Error() string {
	return fmt.Sprintf("GET %s: %d %.200s", r.key, r.status, r.answer)
}

// get returns the value, or "" for a 404. Every other status is an error.
func (c *client) get(key string) (string, error) {
	status, answer, err := c.do(http.MethodGet, entryPath(key), nil)
	if err != nil || status == http.StatusNotFound {
		return "", err
	}
	if status != http.StatusOK {
		return "", &unexpected{key, status, answer}
	}
	var doc struct{ Value string }
	err = json.Unmarshal(answer, &doc)
	return doc.Value, err
}

// expect fails unless a request of the daemon's own surface has the given status.
func (c *client) expect(method, path string, want int) error {
	status, answer, err := c.do(method, path, nil)
	if err != nil {
		return err
	}
	if status != want {
		return fmt.Errorf("%s %s: %d %.200s, want %d", method, path, status, answer, want)
	}
	return nil
}

func (c *client) ready(want int) error { return c.expect(http.MethodGet, "/_botwired/readyz", want) }

// figures are the part of the daemon's status that the tests read.
type figures struct {
	Pending      int
	PendingBytes int `json:"pending_bytes"`
	Rebuilding   bool
}

func (c *client) status() (doc figures, err error) {
	_, answer, err := c.do(http.MethodGet, "/_botwired/status", nil)
	if err != nil {
		return doc, err
	}
	return doc, json.Unmarshal(answer, &doc)
}

// pending returns the daemon's number of pending writes, or an error as long as the
// daemon does not know it.
func (c *client) pending() (int, error) {
	doc, err := c.status()
	if err == nil && doc.Rebuilding {
		err = errors.New("the index is being rebuilt")
	}
	return doc.Pending, err
}

// drained waits until nothing is pending.
func (c *client) drained(t *testing.T, limit time.Duration) {
	t.Helper()
	eventually(t, limit, "nothing pending", func() error {
		n, err := c.pending()
		if err == nil && n > 0 {
			err = fmt.Errorf("%d pending", n)
		}
		return err
	})
}

// isDetail reports whether an answer is {"detail": "…"}, as every error of botwired is.
func isDetail(answer []byte) bool {
	var doc map[string]any
	if json.Unmarshal(answer, &doc) != nil || len(doc) != 1 {
		return false
	}
	text, ok := doc["detail"].(string)
	return ok && text != ""
}
