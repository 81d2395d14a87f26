package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// putOf writes an entry of a given size, and returns the answer.
func (c *child) putOf(key string, bytes int, headers ...string) (status int, body string) {
	c.t.Helper()
	value := strings.NewReader(`{"value":"` + strings.Repeat("v", bytes) + `"}`)
	status, _, body, err := c.exchange(http.MethodPut, "/memory/"+key, value, headers...)
	no(c.t, err)
	return status, body
}

func (c *child) wantPut(want int, key string, bytes int, headers ...string) {
	c.t.Helper()
	if status, body := c.putOf(key, bytes, headers...); status != want {
		c.t.Errorf("a put of %d bytes to %s: %d, want %d: %s", bytes, key, status, want, body)
	}
}

// The puts of a namespace that is full upstream wait, also over a kill, and its deletes go. Other namespaces go on. The
// status names what to delete, and once there is room, the puts follow.
func testNamespaceFull(t *testing.T, program string) {
	service, dir := newMemoryService(t), filepath.Join(t.TempDir(), "data")
	var full atomic.Bool
	holds, of := service.handler, hidden("n/")
	of = "/memory/" + of[:strings.Index(of, "/")+1]
	service.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if full.Load() && r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, of) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = io.WriteString(w, `{"detail":"Namespace storage limit exceeded (50MB)."}`)
			return
		}
		holds.ServeHTTP(w, r)
	})
	service.up()
	start := func() *child {
		return startChild(t, program, dir, freeAddress(t), service.url(), "--quota-namespace-bytes", "10kB", "--journal-max-bytes", "1MiB")
	}
	c := start()
	for i := range 9 {
		c.wantPut(http.StatusOK, fmt.Sprint("n/old", i), 900+i)
	}
	flush := func() {
		t.Helper()
		if status, _, err := c.ask(http.MethodPost, "/_botwired/flush?now=true", ""); err != nil || status != http.StatusOK {
			t.Fatalf("flush: %d, %v", status, err)
		}
	}
	flush()
	if status, _, err := c.ask(http.MethodGet, "/memory/n", "", "Cache-Control", "no-cache"); err != nil || status != http.StatusOK {
		t.Fatalf("list: %d, %v", status, err)
	}
	nearly, largest := "n is nearly full (about 8,136 of 10,000 bytes", "the largest in n: old8 (908 bytes), old7 (907 bytes), old6 (906 bytes)"
	if keys != nil { // upstream counts the sealed values
		nearly, largest = "n is nearly full", "the largest in n: old8 ("
	}
	says := func(parts ...string) {
		t.Helper()
		eventually(t, func() error {
			_, _, body, err := c.exchange(http.MethodGet, "/_botwired/status", nil)
			for _, part := range parts {
				if err == nil && !strings.Contains(body, part) {
					err = fmt.Errorf("the status lacks %q: %s", part, body)
				}
			}
			return err
		})
	}
	says(nearly, largest)
	full.Store(true)
	for i := range 10 {
		c.wantPut(http.StatusOK, fmt.Sprint("n/", i), 9_000)
	}
	for range 2 {
		says("Upstream has no room for more in n (HTTP 413: Namespace storage limit exceeded (50MB).)", largest)
		c.kill()
		c = start()
	}
	says("Upstream has no room for more in n")
	c.wantPut(http.StatusOK, "n/more", 20_000)
	if status, body := c.putOf("n/most", 20_000); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "namespace n is full upstream, and its pending writes take") {
		t.Errorf("beyond its part of the journal: %d %s", status, body)
	}
	c.wantPut(http.StatusOK, "other/k", 20_000)
	if status, _, err := c.ask(http.MethodDelete, "/memory/n/old8", ""); err != nil || status != http.StatusOK {
		t.Errorf("delete: %d, %v", status, err)
	}
	eventually(t, func() error {
		_, absent := service.value("n/old8")
		if _, err := service.value("other/k"); err != nil || absent == nil {
			return errors.Join(errors.New("the delete, or the other namespace, waits"), err)
		}
		return nil
	})
	if _, out, _ := c.statusCommand(program); !strings.Contains(out, "Upstream has no room for more in n") || !strings.Contains(out, "old7 (") || strings.Contains(out, "old8") {
		t.Errorf("the status says\n%s", out)
	}
	if _, _, body, err := c.exchange(http.MethodGet, "/_botwired/metrics", nil); err != nil || !strings.Contains(body, "\nbotwired_quota_full_namespaces 1\n") {
		t.Errorf("metrics: %v\n%s", err, body)
	}
	full.Store(false)
	flush()
	if value, err := service.value("n/more"); err != nil || len(value) != 20_000 {
		t.Errorf("upstream holds %d bytes of n/more: %v", len(value), err)
	}
}
