package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
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

// A namespace is filled up to its limit and not beyond: not by conditional writes or writes with
// preferences, nor after a kill. Deletes make room. Another host's writes count when a LIST shows them.
func testNamespaceFull(t *testing.T, program string) {
	service, dir := newMemoryService(t).up(), filepath.Join(t.TempDir(), "data")
	start := func() *child {
		c := startChild(t, program, dir, freeAddress(t), service.url(), "--quota-namespace-bytes", "10kB")
		eventually(t, func() error { // so that everything on the disk counts
			if !strings.Contains(c.stderr.String(), "journal read") {
				return errors.New("the journal is not read: " + c.stderr.String())
			}
			return nil
		})
		return c
	}
	c := start()
	for i := range 10 {
		c.wantPut(http.StatusOK, fmt.Sprint("n/", i), 950)
	}
	const refusal = `{"detail":"the write was not taken, and nothing of it is kept: namespace n is full: it holds about 9500 bytes, this write adds 501, ` +
		`and quota.namespace_bytes allows 10000. Delete entries, write shorter values, or raise quota.namespace_bytes if upstream allows more"}`
	isFull := func(why string) {
		t.Helper()
		if status, body := c.putOf("n/more", 501); status != http.StatusRequestEntityTooLarge || body != refusal {
			t.Errorf("%s: %d %s, want 413 %s", why, status, body, refusal)
		}
		c.wantPut(http.StatusRequestEntityTooLarge, "n/more", 501, "Prefer", "wait=60")
		c.wantPut(http.StatusRequestEntityTooLarge, "n/more", 501, "If-None-Match", "*")
		c.wantPut(http.StatusOK, "n/0", 950)
		c.wantPut(http.StatusOK, "other/k", 501)
		if _, _, body, err := c.exchange(http.MethodGet, "/memory/n/more", nil); err != nil || !strings.Contains(body, "Key not found") {
			t.Errorf("%s: the refused entry: %s, %v", why, body, err)
		}
	}
	isFull("with all pending")
	if status, _, err := c.ask(http.MethodPost, "/_botwired/flush", ""); err != nil || status != http.StatusOK {
		t.Fatalf("flush: %d, %v", status, err)
	}
	isFull("with all settled")
	c.sayFull(program)
	c.kill()
	c = start()
	isFull("after a kill")

	if status, _, err := c.ask(http.MethodDelete, "/memory/n/1", ""); err != nil || status != http.StatusOK {
		t.Fatalf("delete: %d, %v", status, err)
	}
	c.wantPut(http.StatusOK, "n/more", 501)
	c.wantPut(http.StatusOK, "n/2", 1000)
	no(t, service.put("n/theirs", strings.Repeat("v", 800)))
	c.wantPut(http.StatusOK, "n/3", 1000) // the other host's entries are not known yet
	if status, _, err := c.ask(http.MethodGet, "/memory/n", "", "Cache-Control", "no-cache"); err != nil || status != http.StatusOK {
		t.Fatalf("list: %d, %v", status, err)
	}
	eventually(t, func() error { // the entries are counted in the background
		status, _, err := c.ask(http.MethodPut, "/memory/n/4", `{"value":"`+strings.Repeat("v", 1000)+`"}`)
		if err == nil && status == http.StatusOK {
			status, _, err = c.ask(http.MethodDelete, "/memory/n/4", "")
		}
		if err == nil && status != http.StatusRequestEntityTooLarge {
			err = fmt.Errorf("the namespace is not full: %d", status)
		}
		return err
	})
}

// sayFull checks that the command line, the status, the metrics and the log report that the namespace
// is nearly full.
func (c *child) sayFull(program string) {
	c.t.Helper()
	if _, out, _ := c.statusCommand(program); !strings.Contains(out, "holds about 9500 of 10000 bytes") {
		c.t.Errorf("the status says\n%s", out)
	}
	for target, part := range map[string]string{
		"/_botwired/status":  `"bytes":9500,"bytes_limit":10000`,
		"/_botwired/metrics": "\nbotwired_quota_nearly_full_namespaces 1\n",
	} {
		if _, _, body, err := c.exchange(http.MethodGet, target, nil); err != nil || !strings.Contains(body, part) {
			c.t.Errorf("%s does not say %q: %v\n%s", target, part, err, body)
		}
	}
	eventually(c.t, func() error { // the log line follows within a second
		if n := strings.Count(c.stderr.String(), "a namespace is full"); n != 1 {
			return fmt.Errorf("a full namespace is logged %d times: %s", n, c.stderr)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	cmd, errs := command(ctx, c.t, program, "set", "--listen", c.address, "n", "more", strings.Repeat("v", 501))
	_ = cmd.Run() // the test checks the exit code
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitError || !strings.Contains(errs.String(), "namespace n is full: it holds about 9500 bytes") {
		c.t.Errorf("botwired set: exit code %d: %s", code, errs)
	}
}
