package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(whole{m}) }

// sidecar is a server over a real journal and a real cache. Its upstream and flusher do what the test says.
type sidecar struct {
	t        *testing.T
	server   *proxy.Server
	opts     proxy.Options
	journal  *journal.Journal
	cache    *cache.Cache
	upstream *fakeUpstream
	flusher  *fakeFlusher
	policy   cache.Policy
	log      *lockedBuffer
	passed   []string // passed on to upstream
	failed   bool     // the disk has failed
}

// lockedBuffer is a log that the server and the test share.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// usual is the default policy.
var usual = cache.Policy{
	FreshFor: 10 * time.Second, StaleWhileRevalidate: time.Minute, StaleIfError: cache.Forever, AbsentFor: 2 * time.Second,
}

func newSidecar(t *testing.T, adjust ...func(*journal.Options, *proxy.Options)) *sidecar {
	t.Helper()
	s := &sidecar{t: t, policy: usual, log: &lockedBuffer{}, upstream: newFakeUpstream()}
	logger := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if s.cache, err = cache.New(8 << 20); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cache.Close)
	stored := journal.Options{Dir: "journal", FS: vfs.NewMem(), Logger: logger}
	opts := proxy.Options{
		Forward: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.passed = append(s.passed, r.Method+" "+r.URL.Path)
			w.WriteHeader(http.StatusTeapot)
		}),
	}
	opts.Cache, opts.Upstream, opts.Logger = s.cache, s.upstream, logger
	opts.Policy = func(string) cache.Policy { return s.policy }
	opts.Sealed = func(namespace string) bool { return namespace == "sealed" }
	opts.NotOpened = func() map[string]string { return s.upstream.notOpened }
	opts.UpstreamURL, opts.UpstreamState, opts.ReadsRefused = "http://upstream.example", s.upstream.state, s.upstream.readsRefused
	opts.Version, opts.Metrics, opts.Traces = "1.2.3", metrics.New(metrics.Build{}), trace.NewWrites()
	for _, a := range adjust {
		a(&stored, &opts)
	}
	if s.journal, err = journal.Open(stored); err != nil {
		t.Fatal(err)
	}
	s.journal.Subscribe(func(c journal.Change) {
		s.cache.Changed(c.Namespace, c.Key)
		if s.server != nil {
			s.server.Changed(c)
		}
	})
	t.Cleanup(func() {
		if err := s.journal.Close(); err != nil && (!s.failed || !errors.Is(err, journal.ErrFailed)) {
			t.Errorf("closing the journal: %v", err)
		}
	})
	if err := s.journal.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.flusher = &fakeFlusher{journal: s.journal, upstream: s.upstream}
	opts.Journal, opts.Flusher = s.journal, s.flusher
	s.opts = opts
	s.startServer()
	s.readMetrics()
	return s
}

// startServer makes a new server over the journal, as the daemon does when it starts. Stop the old server first.
func (s *sidecar) startServer() {
	var err error
	if s.server, err = proxy.New(s.opts); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.server.Close)
}

// readMetrics lets the metrics read the same sources as in the daemon.
func (s *sidecar) readMetrics() {
	s.opts.Metrics.Read(metrics.Sources{
		Status: s.server.Status, Journal: s.journal, Cache: s.cache, Quotas: noQuotas{}, Disk: s.server.DiskUsage, Coalesced: func() int64 { return 0 },
	})
}

// noQuotas are the quotas of an upstream without quotas.
type noQuotas struct{}

func (noQuotas) Spent() int64 { return 0 }
func (noQuotas) Saved() int64 { return 0 }
func (noQuotas) Spread() int  { return 0 }

// inBubble runs a test in virtual time. There, synctest.Wait waits until nothing moves any more.
func inBubble(t *testing.T, test func(*testing.T, *sidecar)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newSidecar(t)) })
}

// run runs the server's background work until the test ends.
func (s *sidecar) run() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.server.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.t.Errorf("Run ended with %v", err)
		}
	})
}

// do sends one request. headers are alternating names and values.
func (s *sidecar) do(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(s.t.Context(), method, target, content)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.serve(s.server, w, r)
	return w
}

// serve lets a handler answer, and checks the answer against the description.
func (s *sidecar) serve(handler http.Handler, w *httptest.ResponseRecorder, r *http.Request) {
	handler.ServeHTTP(w, r)
	if err := described().check(r.Method, r.URL.Path, w.Code, w.Header(), w.Body.Bytes()); err != nil {
		s.t.Error(err)
	}
}

// begin sends a request without waiting for the answer.
func (s *sidecar) begin(method, target, body string, headers ...string) <-chan *httptest.ResponseRecorder {
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() { done <- s.do(method, target, body, headers...) }()
	return done
}

// asking begins a read, and returns when upstream has made its answer and holds it.
func (s *sidecar) asking(target string, headers ...string) (reader <-chan *httptest.ResponseRecorder, held *question) {
	questions := s.upstream.hold()
	reader = s.begin(http.MethodGet, target, "", headers...)
	return reader, <-questions
}

// together sends requests that all wait for one answer from upstream.
func (s *sidecar) together(n int, method, target string) (answers []*httptest.ResponseRecorder) {
	questions := s.upstream.hold()
	var waiting []<-chan *httptest.ResponseRecorder
	for range n {
		waiting = append(waiting, s.begin(method, target, ""))
	}
	synctest.Wait()
	close((<-questions).answer)
	for _, w := range waiting {
		answers = append(answers, <-w)
	}
	return answers
}

func (s *sidecar) get(target string, headers ...string) *httptest.ResponseRecorder {
	return s.do(http.MethodGet, target, "", headers...)
}

// put stores a value, and must succeed.
func (s *sidecar) put(id journal.ID, value string, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	w := s.do(http.MethodPut, "/memory/"+id.String(), putBody(value), headers...)
	wantStatus(s.t, w, http.StatusOK)
	return w
}

// settle sends the entry's pending write upstream and settles it.
func (s *sidecar) settle(id journal.ID) {
	s.t.Helper()
	if !s.flusher.settle(id) {
		s.t.Fatalf("%s has nothing pending", id)
	}
}

// settleAll settles what is pending in a namespace.
func (s *sidecar) settleAll(namespace string) {
	s.t.Helper()
	for _, p := range s.journal.PendingList(namespace, 1000) {
		s.settle(p.ID)
	}
}

// learn makes upstream hold a value that the daemon knows as settled.
func (s *sidecar) learn(id journal.ID, value string) {
	s.t.Helper()
	s.upstream.set(id, value)
	wantValue(s.t, s.get("/memory/"+id.String()), value)
}

func putBody(value string) string {
	body, err := json.Marshal(map[string]string{"value": value})
	if err != nil {
		panic(err)
	}
	return string(body)
}

func wantStatus(t *testing.T, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
}

func wantValue(t *testing.T, w *httptest.ResponseRecorder, value string) {
	t.Helper()
	wantStatus(t, w, http.StatusOK)
	if got := valueIn(t, w); got != value {
		t.Errorf("value %q, want %q", got, value)
	}
}

func valueIn(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var doc struct{ Value string }
	decode(t, w, &doc)
	return doc.Value
}

func wantHeader(t *testing.T, w *httptest.ResponseRecorder, name, value string) {
	t.Helper()
	if got := w.Header().Get(name); got != value {
		t.Errorf("%s: %q, want %q", name, got, value)
	}
}

func wantDetail(t *testing.T, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	wantStatus(t, w, status)
	var doc struct{ Detail string }
	decode(t, w, &doc)
	for _, part := range parts {
		if !strings.Contains(doc.Detail, part) {
			t.Errorf("detail %q does not contain %q", doc.Detail, part)
		}
	}
}

func decode(t *testing.T, w *httptest.ResponseRecorder, doc any) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), doc); err != nil {
		t.Fatalf("%v in %q", err, w.Body)
	}
}

func id(namespace, key string) journal.ID { return journal.ID{Namespace: namespace, Key: key} }
