package proxy_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/journal"
)

// audiences are the listeners while a benchmark measures callers.
var audiences = []struct{ name, stream string }{
	{"nobody", ""}, {"events", "events"}, {"monitor", "monitor"},
}

// forAudiences benchmarks a fast-path request with each audience.
func forAudiences(b *testing.B, request fastpath.Request) {
	for _, a := range audiences {
		b.Run(a.name, func(b *testing.B) {
			fake := newFakeUpstream()
			s := benched(b, journal.Options{Dir: "journal", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)}, full{fake}, fake)
			s.journal.Subscribe(func(c journal.Change) {
				s.cache.Changed(c.Namespace, c.Key)
				s.Changed(c)
			})
			if a.stream != "" {
				ctx, leave := context.WithCancel(b.Context())
				gone := make(chan struct{})
				b.Cleanup(func() { leave(); <-gone })
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/_botwired/"+a.stream, http.NoBody)
				go func() {
					defer close(gone)
					s.ServeHTTP(&discard{header: make(http.Header)}, r)
				}()
			}
			put := fastpath.Request{Method: http.MethodPut, Path: request.Path, JSON: true, Body: []byte(benchBody)}
			s.AnswerSimple(&put, nil)
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				answer, later := s.AnswerSimple(&request, dst[:0])
				if later != nil || len(answer) == 0 {
					b.Fatal("it is not answered at once")
				}
				dst = answer
			}
		})
	}
}

// An open page costs callers nothing measurable.
func BenchmarkGetBefore(b *testing.B) {
	forAudiences(b, fastpath.Request{Method: http.MethodGet, Path: "/memory/ns/k"})
}

func BenchmarkPutBefore(b *testing.B) {
	forAudiences(b, fastpath.Request{Method: http.MethodPut, Path: "/memory/ns/k", JSON: true, Body: []byte(benchBody)})
}
