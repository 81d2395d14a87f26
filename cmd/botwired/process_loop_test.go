package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

// A daemon that is its own upstream would confirm its own writes. It must not start.
func testOwnAddress(t *testing.T, program string) {
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	dir := t.TempDir()
	for _, c := range [][2]string{
		{address, "http://" + address},
		{address, "http://localhost:" + port},
		{address, "http://LOCALHOST:" + port + "/base"},
		{address, "http://[::ffff:127.0.0.1]:" + port},
		{"localhost:" + port, "http://127.0.0.1:" + port},
	} {
		failing(t, program, []string{"serve", "--listen", c[0], "--data-dir", dir, "--upstream-url", c[1]},
			cli.ExitError, "upstream.url", strings.ToLower(c[1]), "listens itself")
	}
	if files := tree(t, dir); len(files) != 1 {
		t.Errorf("it touched the directory: %v", files)
	}
}

// loopStatus is the part of the status that shows a loop.
type loopStatus struct {
	Pending  int
	Upstream struct{ State, Reason string }
}

func (c *child) loopStatus(headers ...string) (s loopStatus, err error) {
	_, _, text, err := c.exchange(http.MethodGet, "/_botwired/status", nil, headers...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &s)
	}
	return s, err
}

// wantsLoop waits until the daemon reports that its upstream is the daemon itself.
func (c *child) wantsLoop(pending int, headers ...string) {
	c.t.Helper()
	eventually(c.t, func() error {
		s, err := c.loopStatus(headers...)
		if err == nil && (s.Upstream.State != "down" || !strings.Contains(s.Upstream.Reason, "this daemon itself") ||
			s.Pending != pending) {
			err = fmt.Errorf("the status says %+v, want %d pending", s, pending)
		}
		return err
	})
}

// A proxy at another address leads back to the daemon. Nothing settles and nothing new is journaled,
// and the status says what is wrong, even if the daemon would need its own token.
func testLoop(t *testing.T, program string) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	no(t, os.WriteFile(tokenFile, []byte("secret"), 0o600))
	for name, args := range map[string][]string{"open": nil, "token": {"--auth-token-file", tokenFile}} {
		address := freeAddress(t)
		between := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
		}})
		t.Cleanup(between.Close)
		c := startChild(t, program, t.TempDir(), address, between.URL, append(args, impatient)...)
		token := []string{"Authorization", "Bearer secret"}
		for _, key := range []string{"a", "b", "a"} {
			if status, _, err := c.ask(http.MethodPut, "/memory/n/"+key, `{"value":"v"}`, token...); err != nil || status != http.StatusOK {
				t.Fatalf("%s: a write: %d, %v", name, status, err)
			}
		}
		c.wantsLoop(2, token...)
		if status, _, err := c.ask(http.MethodPost, "/_botwired/flush?timeout=700ms&now=true", "", token...); err != nil || status != http.StatusGatewayTimeout {
			t.Errorf("%s: a flush: %d, %v", name, status, err)
		}
		if status, _, err := c.ask(http.MethodGet, "/memory/n/unknown", "", token...); err != nil || status != http.StatusServiceUnavailable {
			t.Errorf("%s: a read of something unknown: %d, %v", name, status, err)
		}
		if status, _, err := c.ask(http.MethodGet, "/channels", "", token...); err != nil || status != http.StatusLoopDetected {
			t.Errorf("%s: a request that is passed on: %d, %v", name, status, err)
		}
		c.wantsLoop(2, token...)
	}
}

// Two daemons that are each other's upstream notice it when they send their first request. With fences,
// no write goes from one to the other.
func testLoopOfTwo(t *testing.T, program string) {
	first, second := freeAddress(t), freeAddress(t)
	a := startChild(t, program, t.TempDir(), first, "http://"+second)
	no(t, a.put("n/k0", "v"))
	b := startChild(t, program, t.TempDir(), second, "http://"+first)
	a.wantsLoop(1)
	no(t, b.put("n/k0", "other"))
	b.wantsLoop(1)
	for i := 1; i <= 5; i++ {
		no(t, a.put(fmt.Sprint("n/k", i), "v"))
	}
	a.wantsLoop(6)
	b.wantsLoop(1)
	for _, w := range []struct {
		c     *child
		value string
	}{{a, `"v"`}, {b, `"other"`}} {
		if status, _, body, err := w.c.exchange(http.MethodGet, "/memory/n/k0", nil); err != nil || status != http.StatusOK || !strings.Contains(body, w.value) {
			t.Errorf("%d %s, %v; want %s", status, body, err, w.value)
		}
	}
}

// A daemon in a sandbox whose upstream is a daemon on the host is not a loop.
func testChain(t *testing.T, program string) {
	service := newMemoryService(t).up()
	host := startChild(t, program, t.TempDir(), freeAddress(t), service.url())
	sandbox := startChild(t, program, t.TempDir(), freeAddress(t), "http://"+host.address)
	for i := range 3 {
		key := fmt.Sprint("n/k", i)
		no(t, sandbox.put(key, "v"))
		for _, c := range []*child{sandbox, host} {
			if status, _, err := c.ask(http.MethodPost, "/_botwired/flush?timeout=20s", ""); err != nil || status != http.StatusOK {
				t.Fatalf("a flush: %d, %v", status, err)
			}
		}
		// If both seal, the host seals what the sandbox has sealed.
		if got, err := service.value(hidden(key)); err != nil || unsealed(key, got) != "v" {
			t.Errorf("upstream holds %q, %v", got, err)
		}
	}
	if status, _, err := sandbox.ask(http.MethodGet, "/health", ""); err != nil || status != http.StatusOK {
		t.Errorf("a request that is passed on: %d, %v", status, err)
	}
	if status, _, err := sandbox.ask(http.MethodGet, "/memory/n/absent", ""); err != nil || status != http.StatusNotFound {
		t.Errorf("a read of something absent: %d, %v", status, err)
	}
	for _, c := range []*child{sandbox, host} {
		if s, err := c.loopStatus(); err != nil || s.Upstream.State != "up" || s.Pending != 0 {
			t.Errorf("the status says %+v, %v", s, err)
		}
	}
}
