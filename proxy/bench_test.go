package proxy_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/proxy/memory"
)

// onDisk returns a server over a journal on the real disk, with an upstream that the benchmark does not ask.
func onDisk(b *testing.B, adjust ...func(*proxy.Options)) benchedServer {
	up := newFakeUpstream()
	return benched(b, journal.Options{Dir: b.TempDir()}, up, up, adjust...)
}

// benchedServer is a server with its journal and cache.
type benchedServer struct {
	*proxy.Server
	journal *journal.Journal
	cache   *cache.Cache
}

func benched(b *testing.B, stored journal.Options, up memory.Upstream, fake *fakeUpstream, adjust ...func(*proxy.Options)) benchedServer {
	b.Helper()
	answers, err := cache.New(64 << 20)
	noError(b, err)
	b.Cleanup(answers.Close)
	j, err := journal.Open(stored)
	noError(b, err)
	j.Subscribe(func(c journal.Change) { answers.Changed(c.Namespace, c.Key) })
	b.Cleanup(func() { noError(b, j.Close()) })
	noError(b, j.Run(b.Context()))
	opts := proxy.Options{Forward: http.NotFoundHandler()}
	opts.Journal, opts.Cache, opts.Upstream, opts.Flusher = j, answers, up, &fakeFlusher{journal: j, upstream: fake}
	opts.Policy, opts.UpstreamState = func(string) cache.Policy { return usual }, fake.state
	opts.Metrics, opts.Logger = metrics.New(metrics.Build{}), slog.New(slog.DiscardHandler)
	for _, a := range adjust {
		a(&opts)
	}
	s, err := proxy.New(opts)
	noError(b, err)
	b.Cleanup(s.Close)
	return benchedServer{s, j, answers}
}

func noError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// discard is an answer that nobody reads, and costs nothing itself.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// send sends one request, which must succeed, with the answer into d.
func send(b *testing.B, s *proxy.Server, d *discard, r *http.Request) {
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
	send(b, s.Server, d, putRequest(b))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/memory/ns/k", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		send(b, s.Server, d, r)
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

// rewind makes a request's body readable again.
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
		send(b, s.Server, d, r)
	}
}

// 64 concurrent callers share their fsyncs.
func BenchmarkPutTogether(b *testing.B) {
	s := onDisk(b)
	b.SetParallelism(64)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		d, r := &discard{header: make(http.Header)}, putRequest(b)
		for pb.Next() {
			rewind(r)
			send(b, s.Server, d, r)
		}
	})
}

// full is an upstream that holds every entry and answers at once.
type full struct{ *fakeUpstream }

func (full) Get(context.Context, journal.ID, bool) (*journal.Observation, error) {
	return &journal.Observation{Value: "v", ListBytes: 1, CreatedAt: 1, UpdatedAt: 1}, nil
}

// listening returns the address of a listener for the server's callers.
func listening(tb testing.TB, s *proxy.Server) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(tb, err)
	server := fastpath.New(listener, fastpath.Options{
		HTTP:   &http.Server{Handler: s, ReadHeaderTimeout: time.Hour, ReadTimeout: time.Hour, WriteTimeout: time.Hour, IdleTimeout: time.Hour},
		Admits: func(*http.Request) bool { return true }, Answer: s.AnswerSimple, BodyMatters: proxy.BodyMatters, Logger: slog.New(slog.DiscardHandler),
	})
	go func() { _ = server.Serve() }() // Close ends it
	tb.Cleanup(func() { noError(tb, server.Close()) })
	return listener.Addr().String()
}

// connected returns a function that sends requests over one connection, as callers do, and reads the answers.
// The journal is in memory.
func connected(b *testing.B) func(request string) {
	b.Helper()
	fake := newFakeUpstream()
	s := benched(b, journal.Options{Dir: "journal", FS: vfs.NewMem()}, full{fake}, fake)
	c, err := net.Dial("tcp", listening(b, s.Server))
	noError(b, err)
	buffer := make([]byte, 4<<10)
	return func(request string) {
		_, err := io.WriteString(c, request)
		noError(b, err)
		n, err := c.Read(buffer)
		noError(b, err)
		if !bytes.HasPrefix(buffer[:n], []byte("HTTP/1.1 200 ")) {
			b.Fatalf("answered %q", buffer[:n])
		}
	}
}

const getHead = " HTTP/1.1\r\nHost: 127.0.0.1:2689\r\nUser-Agent: python-requests/2.32\r\nAccept: */*\r\n\r\n"

func BenchmarkConnectedGet(b *testing.B) {
	send := connected(b)
	b.ReportAllocs()
	for b.Loop() {
		send("GET /memory/ns/k" + getHead)
	}
}

func BenchmarkConnectedGetMiss(b *testing.B) {
	send := connected(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		send("GET /memory/ns/k" + strconv.Itoa(i) + getHead)
	}
}

func BenchmarkConnectedPut(b *testing.B) {
	send := connected(b)
	request := "PUT /memory/ns/k HTTP/1.1\r\nHost: 127.0.0.1:2689\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(benchBody)) + "\r\n\r\n" + benchBody
	b.ReportAllocs()
	for b.Loop() {
		send(request)
	}
}
