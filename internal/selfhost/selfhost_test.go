package selfhost_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/internal/guard"
	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/proof/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a server that the test's cleanup closes. Without a path it gets a new database.
func open(t *testing.T, opts selfhost.Options) *selfhost.Server {
	t.Helper()
	if opts.Path == "" {
		opts.Path = filepath.Join(t.TempDir(), "memory.db")
	}
	s, err := selfhost.Open(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask makes one request to the handler, with a body if it is not empty.
func ask(s *selfhost.Server, method, target, body string) *httptest.ResponseRecorder {
	return askWith(context.Background(), s, method, target, body)
}

func askWith(ctx context.Context, s *selfhost.Server, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	r.Host = "localhost"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func expect(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || w.Body.String() != body {
		t.Errorf("got %d %s\nwant %d %s", w.Code, w.Body, status, body)
	}
}

func TestRecordings(t *testing.T) {
	server := httptest.NewServer(open(t, selfhost.Options{}).Handler())
	defer server.Close()
	wiretest.Replay(t, server.URL, "")
}

func TestBesideMemory(t *testing.T) {
	s := open(t, selfhost.Options{Version: "1.2.3"})
	expect(t, ask(s, "GET", "/stats/memory", ""), 200, `{"total_entries":0,"total_namespaces":0,"total_bytes":0}`)
	ask(s, "PUT", "/memory/a/k", `{"value":"héllo"}`)
	ask(s, "PUT", "/memory/a/l", `{"value":"ab\u0000c"}`)
	ask(s, "PUT", "/memory/b/k", `{"value":""}`)
	expect(t, ask(s, "GET", "/stats/memory", ""), 200, `{"total_entries":3,"total_namespaces":2,"total_bytes":7}`)
	health := ask(s, "GET", "/health?x=1", "")
	expect(t, health, 200, `{"status":"ok","payments":"disabled","network":"eip155:84532"}`)
	if got := health.Header().Get("Server"); got != "botwired-selfhost/1.2.3" {
		t.Errorf("Server is %q", got)
	}
	for _, path := range []string{"/", "/stats", "/healthy", "/docs", "//health", "/memory", "/pricing"} {
		expect(t, ask(s, "GET", path, ""), 404, `{"detail":"Not Found"}`)
	}
	for _, path := range []string{"/health", "/stats/memory"} {
		w := ask(s, "POST", path, "")
		expect(t, w, 405, `{"detail":"Method Not Allowed"}`)
		if got := w.Header().Get("Allow"); got != "GET" {
			t.Errorf("%s: Allow is %q", path, got)
		}
		w = ask(s, "GET", path+"/", "")
		if got := w.Header().Get("Location"); w.Code != 307 || got != "http://localhost"+path {
			t.Errorf("%s/: %d to %q", path, w.Code, got)
		}
	}
}

func TestValueWithNUL(t *testing.T) {
	s := open(t, selfhost.Options{})
	expect(t, ask(s, "PUT", "/memory/a/k", `{"value":"ab\u0000cd"}`), 200, `{"namespace":"a","key":"k","stored":true,"bytes":5}`)
	if got := ask(s, "GET", "/memory/a/k", "").Body.String(); !strings.Contains(got, `"value":"ab\u0000cd"`) {
		t.Errorf("got %s", got)
	}
	if got := ask(s, "GET", "/memory/a", "").Body.String(); !strings.Contains(got, `"bytes":2`) {
		t.Errorf("got %s", got)
	}
}

func TestRefusedWritesStoreNothing(t *testing.T) {
	s := open(t, selfhost.Options{})
	for _, body := range []string{`{"value":"\ud800"}`, `{"value":NaN}`, `{"value":"x"`, `{}`, "\xff"} {
		if w := ask(s, "PUT", "/memory/a/k", body); w.Code != 422 && w.Code != 400 {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	}
	if w := ask(s, "PUT", "/memory/a/k%0A", `{"value":"x"}`); w.Code != 400 {
		t.Errorf("newline: %d %s", w.Code, w.Body)
	}
	expect(t, ask(s, "GET", "/memory/a", ""), 200, `{"namespace":"a","count":0,"keys":[]}`)
}

// Concurrent writes still have one order, which the list shows.
func TestConcurrentWritesAreOrdered(t *testing.T) {
	s := open(t, selfhost.Options{})
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for i := range 25 {
				if w := ask(s, "PUT", fmt.Sprintf("/memory/a/%d-%02d", caller, i), `{"value":"x"}`); w.Code != 200 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
	wg.Wait()
	items := list(t, s, "/memory/a?limit=1000")
	if len(items) != 200 {
		t.Fatalf("%d items, want 200", len(items))
	}
	next := make(map[string]string)
	for i, item := range items {
		if i > 0 && item.UpdatedAt >= items[i-1].UpdatedAt {
			t.Errorf("item %d is not older than the one before it", i)
		}
		caller, nth, _ := strings.Cut(item.Key, "-")
		if last, seen := next[caller]; seen && nth >= last {
			t.Errorf("caller %s: write %s is listed after write %s", caller, nth, last)
		}
		next[caller] = nth
	}
}

func TestLatency(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, selfhost.Options{Path: path, Latency: 50 * time.Millisecond})
		for _, c := range []struct {
			method, target string
			status         int
		}{
			{"PUT", "/memory/a/k", 200}, {"GET", "/memory/a/k", 200}, {"GET", "/memory/a/none", 404}, {"GET", "/health", 200},
		} {
			start := time.Now()
			if w := ask(s, c.method, c.target, `{"value":"x"}`); w.Code != c.status {
				t.Errorf("%s %s: %d %s", c.method, c.target, w.Code, w.Body)
			}
			if took := time.Since(start); took != 50*time.Millisecond {
				t.Errorf("%s %s took %v", c.method, c.target, took)
			}
		}
	})
}

// A request cancelled before its operation changes nothing; a write cancelled after its operation
// stands. Neither is answered with a success.
func TestCancellation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.db")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, selfhost.Options{Path: path, Latency: 50 * time.Millisecond})
		for after, status := range map[time.Duration]int{0: 404, 10 * time.Millisecond: 404, 40 * time.Millisecond: 200} {
			target := fmt.Sprintf("/memory/a/k%d", after)
			ctx, cancel := context.WithTimeout(context.Background(), after)
			start := time.Now()
			w := askWith(ctx, s, "PUT", target, `{"value":"x"}`)
			cancel()
			if took := time.Since(start); w.Code != 503 || took != after {
				t.Errorf("cancelled after %v: %d after %v", after, w.Code, took)
			}
			if w := ask(s, "GET", target, ""); w.Code != status {
				t.Errorf("cancelled after %v: %d, want %d", after, w.Code, status)
			}
		}
	})
}

// cancelling is a body that cancels its own request once it has been read.
type cancelling struct {
	io.Reader
	cancel context.CancelFunc
}

func (c cancelling) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil {
		c.cancel()
	}
	return n, err
}

// A write is made even if its caller leaves just before it begins.
func TestWriteOutlivesItsCaller(t *testing.T) {
	s := open(t, selfhost.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, "PUT", "/memory/a/k", cancelling{strings.NewReader(`{"value":"x"}`), cancel})
	r.Host = "localhost"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	expect(t, w, 503, `{"detail":"The request was cancelled."}`)
	if w := ask(s, "GET", "/memory/a/k", ""); w.Code != 200 {
		t.Errorf("the write is gone: %d %s", w.Code, w.Body)
	}
}

// endless is a body that counts how much of it is read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func TestBodyTooLarge(t *testing.T) {
	s := open(t, selfhost.Options{})
	const want = `{"detail":"Request body too large. Max 5242880 bytes."}`
	for name, length := range map[string]int64{"declared": wire.MaxBodyBytes + 1, "undeclared": -1} {
		body := &endless{}
		r := httptest.NewRequest("PUT", "/memory/a/k", body)
		r.Host, r.ContentLength = "localhost", length
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		expect(t, w, 413, want)
		if w.Header().Get("Connection") != "close" {
			t.Errorf("%s: the connection is kept", name)
		}
		if body.read > 2*wire.MaxBodyBytes || length > 0 && body.read > 0 {
			t.Errorf("%s: %d bytes were read", name, body.read)
		}
	}
	largest := `{"value":"x"}` + strings.Repeat(" ", wire.MaxBodyBytes-len(`{"value":"x"}`))
	expect(t, ask(s, "PUT", "/memory/a/k", largest), 200, `{"namespace":"a","key":"k","stored":true,"bytes":1}`)
}

func TestBrokenBody(t *testing.T) {
	s := open(t, selfhost.Options{})
	r := httptest.NewRequest("PUT", "/memory/a/k", io.MultiReader(strings.NewReader(`{"value":"x"}`), brokenReader{}))
	r.Host = "localhost"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	expect(t, w, 400, `{"detail":"There was an error parsing the body"}`)
	expect(t, ask(s, "GET", "/memory/a/k", ""), 404, `{"detail":"Key not found: a/k"}`)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestGuard(t *testing.T) {
	s := open(t, selfhost.Options{Guard: guard.Options{Hosts: []string{"memory.example"}, Token: "t"}})
	for host, status := range map[string]int{"evil.example": 403, "localhost": 401, "memory.example": 401} {
		r := httptest.NewRequest("GET", "/memory/a", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%s: %d %s", host, w.Code, w.Body)
		}
	}
}

// A foreign page gets nothing, not even an answer that it could not read. A program that sends an
// Origin is answered.
func TestForeignOrigin(t *testing.T) {
	s := open(t, selfhost.Options{})
	for _, method := range []string{"PUT", "GET", "DELETE", "OPTIONS"} {
		for accept, refused := range map[string]bool{"": false, "*/*": true} {
			r := httptest.NewRequest(method, "/memory/a/k", strings.NewReader(`{"value":"x"}`))
			r.Host = "localhost"
			r.Header.Set("Origin", "http://example.com")
			if accept != "" {
				r.Header.Set("Accept", accept)
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if (w.Code == http.StatusForbidden) != refused {
				t.Errorf("%s, Accept %q: %d %s", method, accept, w.Code, w.Body)
			}
		}
	}
}

func TestClose(t *testing.T) {
	s := open(t, selfhost.Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, target string }{
		{"GET", "/memory/a/k"}, {"PUT", "/memory/a/k"}, {"DELETE", "/memory/a/k"}, {"GET", "/memory/a"}, {"GET", "/stats/memory"},
	} {
		expect(t, ask(s, c.method, c.target, `{"value":"x"}`), http.StatusServiceUnavailable, `{"detail":"The server is shutting down."}`)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}
