package botwire_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/upstream/botwire"
)

// forwarding returns a forwarder to a handler under a base path.
func forwarding(t *testing.T, base string, dropAuthorization bool, handler http.HandlerFunc) (http.Handler, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL + base)
	if err != nil {
		t.Fatal(err)
	}
	c := botwire.NewClient(botwire.Options{URL: u, Timeout: timeout, Concurrency: 1, Headers: http.Header{"X-Own": {"1"}}})
	t.Cleanup(c.Close)
	return botwire.NewForwarder(c, func() bool { return dropAuthorization }, slog.New(slog.DiscardHandler)), server
}

func forwarded(h http.Handler, method, target string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://caller.test:2689/", body)
	r.URL, _ = url.ParseRequestURI(target)
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("Botwired-Author", "me")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestForwardLeavesTheTargetAsItIs(t *testing.T) {
	var got string
	for _, base := range []string{"", "/base"} {
		h, _ := forwarding(t, base, false, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
		for _, target := range []string{
			"/channels/a%2Fb", "/a/../b", "/a/./b/..", "//a//b", "/a%20b%41", "/x?a=1;b=2&c=%zz", "/x?", "/", "/%E2%82%AC",
		} {
			if forwarded(h, http.MethodGet, target, nil); got != base+target {
				t.Errorf("%s arrived as %s", base+target, got)
			}
		}
	}
}

func TestForwardHeaders(t *testing.T) {
	for _, drop := range []bool{true, false} {
		var got http.Header
		h, _ := forwarding(t, "", drop, func(w http.ResponseWriter, r *http.Request) {
			got = r.Header
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Expose-Headers", "*")
			w.Header().Set("X-Kept", "1")
			w.WriteHeader(http.StatusTeapot)
		})
		w := forwarded(h, http.MethodPost, "/x", strings.NewReader("body"))
		if (got.Get("Authorization") == "") != drop || got.Get("X-Own") != "1" || got.Get("Botwired-Author") != "" {
			t.Errorf("upstream got %v", got)
		}
		if h := w.Header(); h.Get("Content-Security-Policy") != "sandbox" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("a page of upstream's has the dashboard's origin: %v", h)
		}
		if w.Code != http.StatusTeapot || w.Header().Get("X-Kept") != "1" || strings.Contains(strings.Join(keysOf(w.Header()), " "), "Access-Control") {
			t.Errorf("the caller got %d %v", w.Code, w.Header())
		}
	}
}

// Upstream may be another botwired, and callers do not see that. They do see the gateways in between,
// as they would without botwired.
func TestForwardKeepsTheDaemonsInViaFromCallers(t *testing.T) {
	for via, want := range map[string]string{
		"1.1 botwired-a": "",
		"1.1 vegur":      "1.1 vegur",
		"1.1 botwired-a, 1.1 botwired-b\n1.1 google": "1.1 google",
		"1.1 botwired-a, 1.1 vegur (x), HTTP/2 y":    "1.1 vegur (x), HTTP/2 y",
	} {
		h, _ := forwarding(t, "", false, func(w http.ResponseWriter, _ *http.Request) { w.Header()["Via"] = strings.Split(via, "\n") })
		w := forwarded(h, http.MethodGet, "/channels", nil)
		if got := strings.Join(w.Header()["Via"], "\n"); got != want {
			t.Errorf("%q: the caller got %q, want %q", via, got, want)
		}
	}
}

// Many servers treat X_Own as X-Own: a caller must not be able to send one beside it.
func TestForwardSendsNoHeaderThatPassesForAConfiguredOne(t *testing.T) {
	var got http.Header
	h, _ := forwarding(t, "", false, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	r := httptest.NewRequest(http.MethodGet, "http://caller.test:2689/x", nil)
	for _, name := range []string{"X_Own", "x_own", "X-Own", "x-oWN"} {
		r.Header[name] = []string{"the caller's"}
	}
	r.Header.Set("X_Other", "2")
	h.ServeHTTP(httptest.NewRecorder(), r)
	var own []string
	for name := range got {
		if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "X-Own") {
			own = append(own, name)
		}
	}
	if diff := cmp.Diff([]string{"X-Own"}, own); diff != "" || got.Get("X-Own") != "1" || got.Get("X_Other") != "2" {
		t.Errorf("upstream got %v (-want +got):\n%s", got, diff)
	}
}

// A truncated answer is logged without upstream's bytes: they may be a value.
func TestForwardLogsAnAnswerThatBreaksOff(t *testing.T) {
	var log bytes.Buffer
	c := answering(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nsecret-value\r\n\r\n")
	h := botwire.NewForwarder(c, func() bool { return false }, slog.New(slog.NewTextHandler(&log, nil)))
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("recovered %v", err)
		}
		if !strings.Contains(log.String(), "level=WARN") || strings.Contains(log.String(), "secret-value") {
			t.Errorf("logged: %s", &log)
		}
	}()
	r := httptest.NewRequest(http.MethodGet, "http://caller.test:2689/x", nil)
	ctx := context.WithValue(t.Context(), http.ServerContextKey, &http.Server{}) // as under a server
	h.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
}

// If there was no answer at all, the logged reason holds nothing from upstream either.
func TestForwardLogsNothingOfAnAnswerThatIsNone(t *testing.T) {
	for _, response := range []string{"secret-value\r\n\r\n", "HTTP/1.1 secret-value\r\n\r\n", "HTTP/1.1 200 OK\r\nsecret-value\r\n\r\n"} {
		var log bytes.Buffer
		h := botwire.NewForwarder(answering(t, response), func() bool { return false }, slog.New(slog.NewTextHandler(&log, nil)))
		w := forwarded(h, http.MethodGet, "/x", nil)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(log.String(), "could not be passed on") ||
			strings.Contains(log.String()+w.Body.String(), "secret-value") {
			t.Errorf("%q: %d %s, logged: %s", response, w.Code, w.Body, &log)
		}
		if _, err := answering(t, response).Get(t.Context(), key("k")); err == nil || strings.Contains(err.Error(), "secret-value") {
			t.Errorf("%q: a read says %v", response, err)
		}
	}
}

func keysOf(h http.Header) (keys []string) {
	for k := range h {
		keys = append(keys, k)
	}
	return keys
}

func TestForwardRewritesUpstreamsOwnLocations(t *testing.T) {
	for _, row := range []struct{ base, location, want string }{
		{"", "UP/x/y?q=1#f", "http://caller.test:2689/x/y?q=1#f"},
		{"", "UP//evil.test/", "http://caller.test:2689//evil.test/"},
		{"", "UP", "http://caller.test:2689"},
		{"", "UP/a%2Fb", "http://caller.test:2689/a%2Fb"},
		{"", "/x", "/x"},
		{"", "https://elsewhere.test/x", "https://elsewhere.test/x"},
		{"/base", "UP/base/x", "http://caller.test:2689/x"},
		{"/base", "/base/x", "http://caller.test:2689/x"},
		{"/base", "UP/based/x", "UP/based/x"},
		{"/base", "x", "x"},
	} {
		got := forwardedLocation(t, row.base, row.location)
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", row, diff)
		}
	}
}

func forwardedLocation(t *testing.T, base, location string) string {
	t.Helper()
	var up string
	h, server := forwarding(t, base, false, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", strings.Replace(location, "UP", up, 1))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	up = server.URL
	got := forwarded(h, http.MethodGet, "/x/", nil).Header().Get("Location")
	return strings.Replace(got, up, "UP", 1)
}

func TestForwardBoundsTheBody(t *testing.T) {
	h, _ := forwarding(t, "", false, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	w := forwarded(h, http.MethodPost, "/x", bytes.NewReader(make([]byte, 32<<20+1)))
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d, want 413", w.Code)
	}
}

func TestForwardWhileUpstreamIsDown(t *testing.T) {
	h, server := forwarding(t, "", false, nil)
	server.Close()
	start := time.Now()
	w := forwarded(h, http.MethodGet, "/x", nil)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
		w.Body.String() != `{"detail":"upstream is unavailable"}` {
		t.Errorf("got %d %v %s after %v", w.Code, w.Header(), w.Body, time.Since(start))
	}
}

// Headers that change while the daemon runs apply to its own requests and to forwarded ones. So does
// dropAuthorization.
func TestHeadersChange(t *testing.T) {
	var seen []http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.Header) }))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := botwire.NewClient(botwire.Options{URL: u, Timeout: timeout, Concurrency: 1, Headers: http.Header{"X-Old": {"1"}}})
	t.Cleanup(c.Close)
	drop := false
	h := botwire.NewForwarder(c, func() bool { return drop }, slog.New(slog.DiscardHandler))
	for _, now := range []string{"X-Old", "X-New"} {
		seen = nil
		_, _ = c.Get(t.Context(), key("k")) // the answer is not BotWire's
		forwarded(h, http.MethodGet, "/health", nil)
		if len(seen) != 2 {
			t.Fatalf("%d requests came", len(seen))
		}
		for i, header := range seen {
			for _, name := range []string{"X-Old", "X-New"} {
				if (header.Get(name) != "") != (name == now) {
					t.Errorf("request %d with only %s configured: %v", i, now, header)
				}
			}
		}
		if (seen[1].Get("Authorization") == "") != drop {
			t.Errorf("drops %t: %v", drop, seen[1])
		}
		c.SetHeaders(http.Header{"X-New": {"1"}})
		drop = true
	}
}
