package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/proxy/memory"
)

// wantMetrics checks lines of /metrics.
func wantMetrics(t *testing.T, s *sidecar, lines ...string) {
	t.Helper()
	text := s.get("/_botwired/metrics").Body.String()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %q in:\n%s", line, text)
		}
	}
}

// Every request of the memory API is measured once, on either path, from its beginning to its answer.
func TestRequestsAreMeasured(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		reader, held := s.asking("/memory/n/absent")
		time.Sleep(40 * time.Millisecond)
		close(held.answer)
		wantStatus(t, <-reader, http.StatusNotFound)
		questions := s.upstream.hold()
		request := simpleGet("/memory/n/other")
		_, later := s.server.AnswerSimple(&request, nil)
		time.Sleep(10 * time.Millisecond) // a connection that answers others first
		over := make(chan struct{})
		go func() { later(t.Context(), httptest.NewRecorder()); close(over) }()
		held = <-questions
		time.Sleep(20 * time.Millisecond)
		close(held.answer)
		<-over
		s.put(id("n", "k"), "v")
		s.put(id("n", "k"), "v", "Prefer", "wait=0")
		for _, r := range []fastpath.Request{simplePut("/memory/n/k", putBody("w")), simpleGet("/memory/n/k"), simpleGet("/memory/n/bad:key")} {
			s.simple(r)
		}
		s.get("/memory/n")
		s.do(http.MethodDelete, "/memory/n/k", "")
		s.do(http.MethodPost, "/memory/n/k", "")
		s.get("/health")
		s.get("/_botwired/status")
		wantMetrics(t, s,
			`botwired_request_seconds_sum{operation="get",outcome="miss"} 0.07`,
			`botwired_request_seconds_count{operation="get",outcome="miss"} 2`,
			`botwired_request_seconds_bucket{operation="get",outcome="miss",le="0.05"} 2`,
			`botwired_request_seconds_bucket{operation="get",outcome="miss",le="0.025"} 0`,
			`botwired_request_seconds_bucket{operation="get",outcome="pending",le="5e-06"} 1`,
			`botwired_request_seconds_count{operation="get",outcome="refused"} 1`,
			`botwired_request_seconds_count{operation="put",outcome="acknowledged"} 2`,
			`botwired_request_seconds_count{operation="put",outcome="awaited"} 1`,
			`botwired_request_seconds_sum{operation="list",outcome="unavailable"} 5`, // upstream holds its answer,
			`botwired_request_seconds_count{operation="delete",outcome="acknowledged"} 1`,
		)
		if text := s.get("/_botwired/metrics").Body.String(); strings.Count(text, "botwired_request_seconds_count{") != 7 {
			t.Errorf("other requests are measured, too:\n%s", text)
		}
	})
}

// Each outcome has its own name.
func TestOutcomesHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for o := range memory.Outcomes {
		name := o.String()
		if name == "" || seen[name] {
			t.Errorf("outcome %d is named %q", o, name)
		}
		seen[name] = true
	}
}
