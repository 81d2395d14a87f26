package proxy

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// onDisk is a server over a journal on the real disk, with an upstream that a
// benchmark does not ask.
func onDisk(b *testing.B) *Server {
	b.Helper()
	answers, err := cache.New(64 << 20)
	noError(b, err)
	b.Cleanup(answers.Close)
	j, err := journal.Open(journal.Options{Dir: b.TempDir()})
	noError(b, err)
	j.Subscribe(func(c journal.Change) { answers.Changed(c.Namespace, c.Key) })
	b.Cleanup(func() { noError(b, j.Close()) })
	noError(b, j.Run(b.Context()))
	up := newFakeUpstream()
	s, err := New(Options{
		Journal: j, Cache: answers, Upstream: up, Flusher: &fakeFlusher{journal: j, upstream: up},
		Forward: http.NotFoundHandler(), Policy: func(string) cache.Policy { return usual },
		UpstreamFailing: up.failing, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	noError(b, err)
	b.Cleanup(s.Close)
	return s
}

func noError(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// discard is an answer that nobody reads. It costs nothing of its own.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// serve answers one request into d, which has to succeed.
func send(b *testing.B, s *Server, d *discard, r *http.Request) {
	clear(d.header)
	d.status = 0
	s.ServeHTTP(d, r)
	if d.status != http.StatusOK {
		b.Errorf("status %d", d.status)
	}
}

func BenchmarkGet(b *testing.B) {
	s := onDisk(b)
	d := &discard{header: make(http.Header)}
	send(b, s, d, putRequest(b))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/memory/ns/k", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		send(b, s, d, r)
	}
	if got := d.header.Get("Cache-Status"); !strings.HasPrefix(got, "botwired; hit") {
		b.Errorf("Cache-Status %q", got)
	}
}

func putRequest(b *testing.B) *http.Request {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPut, "/memory/ns/k", http.NoBody)
	r.Header.Set("Content-Type", "application/json")
	rewind(r)
	return r
}

var benchBody = putBody(strings.Repeat("v", 200))

// rewind gives a request its body again.
func rewind(r *http.Request) {
	r.Body = io.NopCloser(strings.NewReader(benchBody))
	r.ContentLength = int64(len(benchBody))
}

func BenchmarkPut(b *testing.B) {
	s := onDisk(b)
	d, r := &discard{header: make(http.Header)}, putRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		rewind(r)
		send(b, s, d, r)
	}
}

// 64 callers at once share their fsyncs.
func BenchmarkPutTogether(b *testing.B) {
	s := onDisk(b)
	b.SetParallelism(64)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		d, r := &discard{header: make(http.Header)}, putRequest(b)
		for pb.Next() {
			rewind(r)
			send(b, s, d, r)
		}
	})
}
