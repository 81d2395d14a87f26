package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/trace"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

var (
	tracedCaller  = trace.Context{Parent: traceParent, State: "vendor=1"}
	callersHeader = []string{"traceparent", traceParent, "tracestate", "vendor=1"}
)

// A request upstream for a waiting caller is part of the caller's trace.
func TestReadsPassTheirTraceOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.get("/memory/n/traced", callersHeader...)
		s.get("/memory/n/untraced")
		s.get("/memory/listed", callersHeader...)
		request := simpleGet("/memory/n/simple")
		request.TraceParent, request.TraceState = []byte(traceParent), []byte("vendor=1")
		_, later := s.server.AnswerSimple(&request, nil)
		clear(request.TraceParent) // the request is no longer valid
		later(t.Context(), httptest.NewRecorder())
		s.get("/memory/n/wrong", "traceparent", "00-nothing")
		want := map[journal.ID]trace.Context{
			id("n", "traced"): tracedCaller, id("n", "untraced"): {}, id("listed", ""): tracedCaller, id("n", "simple"): tracedCaller, id("n", "wrong"): {},
		}
		for _, q := range s.upstream.asked {
			if q.trace != want[q.ID] {
				t.Errorf("%s: %+v", q.ID, q.trace)
			}
			delete(want, q.ID)
		}
		if len(want) > 0 {
			t.Errorf("nobody asked for %v", want)
		}
	})
}

// A write's trace is kept until it is sent.
func TestWritesRememberTheirTrace(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		traces := s.opts.Traces
		s.put(id("n", "k"), "v", callersHeader...)
		request := simplePut("/memory/n/simple", putBody("v"))
		request.TraceParent, request.TraceState = []byte(traceParent), []byte("vendor=1")
		if answer, _ := s.server.AnswerSimple(&request, nil); answer == nil {
			t.Fatal("it is not answered at once")
		}
		s.put(id("n", "untraced"), "v")
		for entry, want := range map[journal.ID]trace.Context{id("n", "k"): tracedCaller, id("n", "simple"): tracedCaller, id("n", "untraced"): {}} {
			w, _, err := s.journal.Newest(entry)
			if got, _ := traces.Of(entry.String(), w.Seq); err != nil || got != want {
				t.Errorf("%s: %+v (%v)", entry, got, err)
			}
		}
		var during trace.Context
		s.flusher.become(func(w journal.Write) (bool, error) {
			during, _ = traces.Of(w.String(), w.Seq)
			return s.flusher.settle(w.ID), nil
		})
		s.put(id("through", "k"), "v", callersHeader...)
		if during != tracedCaller {
			t.Errorf("while it waited: %+v", during)
		}
	})
}

// spans records the spans that are made.
type spans struct{ ended []string }

type noted struct {
	all     *spans
	what    string
	context trace.Context
}

func (s *spans) Start(operation, namespace string, parent trace.Context, _ time.Time) trace.Span {
	what := operation + " " + namespace
	if parent.Given() {
		what += " traced"
	}
	return &noted{s, what, trace.Context{Parent: traceParent, State: "span=" + operation}}
}

func (n *noted) Context() trace.Context { return n.context }

func (n *noted) End(outcome string, failed bool) {
	if failed {
		outcome += " failed"
	}
	n.all.ended = append(n.all.ended, n.what+" "+outcome)
}

// Every request of the memory API has one span, on either path. Requests upstream for it are within the span.
func TestRequestsHaveSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &spans{}
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) { o.Tracer = all })
		s.get("/memory/n/absent", callersHeader...)
		s.put(id("n", "k"), "v")
		for _, path := range []string{"/memory/n/k", "/memory/m/later"} {
			request := simpleGet(path)
			if _, later := s.server.AnswerSimple(&request, nil); later != nil {
				later(t.Context(), httptest.NewRecorder())
			}
		}
		request := simplePut("/memory/n/simple", putBody("v"))
		s.server.AnswerSimple(&request, nil)
		s.get("/memory/n")
		s.do(http.MethodDelete, "/memory/n/bad:key", "")
		s.get("/_botwired/status")
		s.get("/health")
		want := []string{
			"get n traced miss", "put n acknowledged", "get n pending", "get m miss", "put n acknowledged", "list n miss",
			"delete n refused failed",
		}
		if diff := cmp.Diff(want, all.ended); diff != "" {
			t.Errorf("spans (-want +got):\n%s", diff)
		}
		for _, q := range s.upstream.asked {
			if !strings.HasPrefix(q.trace.State, "span=") {
				t.Errorf("%s is asked for outside of the span", q.ID)
			}
		}
		w, _, err := s.journal.Newest(id("n", "simple"))
		if c, _ := s.opts.Traces.Of("n/simple", w.Seq); err != nil || c.State != "span=put" {
			t.Errorf("the write is remembered with %+v (%v)", c, err)
		}
	})
}

// silent makes spans that are not recorded.
type silent struct{}

func (silent) Start(string, string, trace.Context, time.Time) trace.Span { return silent{} }

func (silent) Context() trace.Context { return trace.Context{Parent: traceParent} }

func (silent) End(string, bool) {}

// A read that is answered at once allocates nothing for an unsampled span.
func TestUnsampledHitsAllocateNothing(t *testing.T) {
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) { o.Tracer = silent{} })
	s.put(id("n", "k"), "v")
	request := simpleGet("/memory/n/k")
	var buffer [1 << 10]byte
	allocations := func() float64 {
		return testing.AllocsPerRun(100, func() {
			if answer, _ := s.server.AnswerSimple(&request, buffer[:0]); answer == nil {
				t.Error("it is not answered at once")
			}
		})
	}
	// Until the write has settled, a read decodes it, and the daemon allocates beside it.
	least := allocations()
	for deadline := time.Now().Add(10 * time.Second); least > 0 && time.Now().Before(deadline); least = min(least, allocations()) {
		time.Sleep(10 * time.Millisecond)
	}
	if least > 0 {
		t.Errorf("a hit of the cache makes %v allocations", least)
	}
}
