package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

var allMethods = []string{"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE"}

// Requests from other sites' pages, and with a foreign host name that resolves to loopback, are
// refused.
func testForeign(t *testing.T, program string) {
	service := newMemoryService(t).up()
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url())
	if err := c.put("n/k", "v"); err != nil {
		t.Fatal(err)
	}
	for _, method := range allMethods {
		for _, target := range []string{"/memory/n/k", "/memory/n", "/_botwired/flush", "/_botwired/livez", "/health"} {
			for name, headers := range map[string][]string{
				"host":       {"Host", "evil.example"},
				"rebound":    {"Host", "evil.example:" + c.address[strings.LastIndex(c.address, ":")+1:]},
				"origin":     {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"},
				"null":       {"Origin", "null", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"},
				"other port": {"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"},
				"image":      {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
			} {
				status, _, err := c.ask(method, target, `{"value":"stolen"}`, headers...)
				if err != nil || status != http.StatusForbidden {
					t.Errorf("%s %s, foreign %s: %d, %v", method, target, name, status, err)
				}
			}
		}
	}
	if got, err := c.value("n/k"); err != nil || got != "v" {
		t.Errorf("the entry holds %q, %v", got, err)
	}
}

func testAsterisk(t *testing.T, program string) {
	c := startChild(t, program, t.TempDir(), freeAddress(t), "http://"+freeAddress(t))
	if got := raw(t, c, "OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n"); got != http.StatusForbidden {
		t.Errorf("foreign Host: %d", got)
	}
	if got := raw(t, c, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"); got != http.StatusNotFound {
		t.Errorf("own Host: %d", got)
	}
}

// raw sends text as it is, and returns the status.
func raw(t *testing.T, c *child, text string) int {
	t.Helper()
	conn := dial(t, c)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // this also closes the connection
	return resp.StatusCode
}

func dial(t *testing.T, c *child) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", c.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// The daemon refuses an oversized body early: with a length, when it has the headers, and without one,
// when the body has grown too large.
func testOversized(t *testing.T, program string) {
	c := startChild(t, program, t.TempDir(), freeAddress(t), "http://"+freeAddress(t))
	const head = "PUT /memory/n/k HTTP/1.1\r\nHost: localhost\r\n"
	if got := raw(t, c, head+"Content-Length: 1000000000\r\n\r\n{"); got != http.StatusRequestEntityTooLarge {
		t.Errorf("with its length: %d", got)
	}
	const chunk = 1 << 20
	chunks := strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", chunk, strings.Repeat(" ", chunk)), 6)
	if got := raw(t, c, head+"Transfer-Encoding: chunked\r\n\r\n"+chunks); got != http.StatusRequestEntityTooLarge {
		t.Errorf("in chunks: %d", got)
	}
	large := "GET /memory/n/k HTTP/1.1\r\nHost: localhost\r\nX-Large: " + strings.Repeat("x", 100<<10) + "\r\n\r\n"
	if got := raw(t, c, large); got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers: %d", got)
	}
}

func testSlowHeaders(t *testing.T, program string) {
	c := startChild(t, program, t.TempDir(), freeAddress(t), "http://"+freeAddress(t))
	conn := dial(t, c)
	began := time.Now()
	if _, err := io.WriteString(conn, "GET /memory/n/k HTTP/1.1\r\nHost: localhost\r\n"); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, conn) // returns when the daemon closes the connection
	if took := time.Since(began); err != nil || took > 40*time.Second {
		t.Errorf("it waited %s for headers, %v", took, err)
	}
}

// botwired does not pass on upstream's CORS headers, which open upstream to all pages.
func testNoCORS(t *testing.T, program string) {
	service := newMemoryService(t).up()
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url())
	own := "http://" + c.address
	for _, method := range allMethods {
		for _, target := range []string{"/memory/n/k", "/memory/n", "/memory/n/", "/health", "/nothing", "/_botwired/status", "/_botwired/nothing"} {
			for _, headers := range [][]string{
				nil, {"Origin", own}, {"Origin", own, "Access-Control-Request-Method", "PUT"},
				{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Access-Control-Request-Method", "PUT"},
			} {
				_, header, err := c.ask(method, target, `{"value":"v"}`, headers...)
				if err != nil {
					t.Fatal(err)
				}
				for name := range header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s %s: %s is sent", method, target, name)
					}
				}
			}
		}
	}
}

// Values and tokens never get into the log, at any level.
func testValuesStayOut(t *testing.T, program string) {
	const value, token = "marker-of-a-value", "marker-of-a-token"
	service := newMemoryService(t)
	file := t.TempDir() + "/token"
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url(), "--log-level", "debug",
		"--auth-token-file", file, "--upstream-headers", `{"X-Key":"`+token+`"}`)
	ask := func(method, target, body string) {
		t.Helper()
		if _, _, err := c.ask(method, target, body, "Authorization", "Bearer "+token); err != nil {
			t.Fatal(err)
		}
	}
	basic := func(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }
	want := func(authorization string, status int) {
		t.Helper()
		got, _, err := c.ask(http.MethodGet, "/memory/n/k", "", "Authorization", authorization)
		if err != nil || got != status {
			t.Errorf("%d, %v, want %d", got, err, status)
		}
	}
	body := `{"value":"` + value + `"}`
	ask(http.MethodPut, "/memory/n/k", body)
	ask(http.MethodPut, "/memory/n/bad%20key", body)
	ask(http.MethodPut, "/memory/n/k", `{"value":["`+value+`"]}`)
	ask(http.MethodPost, "/channels/x", body)
	ask(http.MethodPost, "/_botwired/flush?timeout=300ms", "")
	service.up()
	ask(http.MethodPost, "/_botwired/flush?timeout=20s", "")
	ask(http.MethodGet, "/memory/n/k", "")
	ask(http.MethodPost, "/channels/x", body)
	want(basic("x:"+token), http.StatusOK)
	want(basic("x:wrong-"+token), http.StatusUnauthorized)
	want("Bearer wrong-"+token, http.StatusUnauthorized)
	c.kill()
	log := c.stderr.String()
	for _, marker := range []string{value, token, basic("x:" + token)[len("Basic "):]} {
		if strings.Contains(log, marker) {
			t.Errorf("the log contains %q:\n%s", marker, log)
		}
	}
	if !strings.Contains(log, `"listening"`) {
		t.Error("nothing was logged")
	}
}
