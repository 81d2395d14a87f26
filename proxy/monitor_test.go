package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/journal"
)

// wantShown checks the requests and skips that the monitor shows, each in one line.
func wantShown(t *testing.T, a *audience, want ...string) {
	t.Helper()
	var got []string
	for _, e := range a.take() {
		if e.Name == eventSkipped {
			got = append(got, fmt.Sprintf("skipped %d", read[api.Skipped](t, e).Requests))
			continue
		}
		doc := read[api.AnsweredRequest](t, e)
		line := fmt.Sprintf("%s %s %d %s %d", doc.Method, doc.Path, doc.Status, doc.Answered, doc.Bytes)
		if doc.AgeSeconds != nil {
			line += fmt.Sprintf(" age %v", *doc.AgeSeconds)
		}
		if named := "/memory/" + strings.TrimSuffix(doc.Namespace+"/"+doc.Key, "/"); doc.Namespace != "" && named != doc.Path {
			t.Errorf("%s names %s", e.Data, named)
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheMonitorShowsEveryRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "theirs"), "v")
		a := s.listen(s.listener(), "monitor")
		s.put(id("n", "k"), "val")
		wantShown(t, a, "PUT /memory/n/k 200 pending 15")
		s.get("/memory/n/k")
		s.settle(id("n", "k"))
		wantShown(t, a, "GET /memory/n/k 200 pending 91 age 0")
		s.get("/memory/n/k")
		time.Sleep(3 * time.Second)
		s.get("/memory/n/k")
		wantShown(t, a, "GET /memory/n/k 200 disk 91 age 0.1", "GET /memory/n/k 200 memory 91 age 3.1")
		s.get("/memory/n/theirs")
		s.get("/memory/n/nothing")
		s.get("/memory/n?limit=3")
		s.do(http.MethodDelete, "/memory/n/k", "")
		s.do(http.MethodDelete, "/memory/n/k", "")
		wantShown(t, a, "GET /memory/n/theirs 200 upstream 90", "GET /memory/n/nothing 404 upstream 37",
			"GET /memory/n 200 upstream 133", "DELETE /memory/n/k 200 pending 42", "DELETE /memory/n/k 404 refused 31")
		s.flusher.await = func(context.Context, journal.ID, uint64) bool { s.settle(id("n", "w")); return true }
		s.put(id("n", "w"), "v", "Prefer", "wait=1")
		s.do(http.MethodPut, "/memory/n/k", `{"value":1}`)
		s.do(http.MethodPatch, "/memory/n/k", "")
		s.get("/memory/n//")
		s.get("/memory/n/k?", "If-None-Match", "*")
		s.upstream.setDown(true)
		s.get("/memory/unknown/k")
		got := a.take()
		for i, want := range []string{"PUT 200 settled", "PUT 422 refused", "PATCH 405 refused", "GET", "GET", "GET 503 failed"} {
			if i >= len(got) {
				t.Fatalf("%d requests are shown", len(got))
			}
			doc := read[api.AnsweredRequest](t, got[i])
			if line := fmt.Sprintf("%s %d %s", doc.Method, doc.Status, doc.Answered); !strings.HasPrefix(line, want) {
				t.Errorf("it shows %q, want %q", line, want)
			}
		}
	})
}

// The monitor shows requests answered without net/http like all others.
func TestTheMonitorShowsSimpleRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "theirs"), "v")
		a := s.listen(s.listener(), "monitor")
		get := func(key string) { s.simple(fastpath.Request{Method: http.MethodGet, Path: "/memory/n/" + key}) }
		put := func(key, body string) {
			s.simple(fastpath.Request{Method: http.MethodPut, Path: "/memory/n/" + key, JSON: true, Body: []byte(body)})
		}
		put("k", `{"value":"val"}`)
		get("k")
		get("theirs")
		wantShown(t, a, "PUT /memory/n/k 200 pending 15", "GET /memory/n/k 200 pending 91 age 0",
			"GET /memory/n/theirs 200 upstream 90")
		put("k", `{"value":1}`)
		get("a:b")
		got := a.take()
		if len(got) != 2 || read[api.AnsweredRequest](t, got[0]).Status != 422 || read[api.AnsweredRequest](t, got[1]).Status != 400 {
			t.Errorf("it shows %d requests: %s", len(got), got)
		}
	})
}

// A request gets the same answer whether somebody reads the monitor or not.
func TestTheMonitorChangesNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		ask := func() (answers []string) {
			for _, r := range []struct{ method, target, body string }{
				{http.MethodGet, "/memory/n/k", ""}, {http.MethodGet, "/memory/n", ""}, {http.MethodPut, "/memory/n/k", `{"value":1}`},
				{http.MethodPost, "/memory/n/k", ""}, {http.MethodGet, "/memory/n/k/", ""}, {http.MethodGet, "/other", ""},
				{http.MethodPut, "/memory/n/k", strings.Repeat(" ", 6<<20)},
			} {
				w := s.do(r.method, r.target, r.body)
				answers = append(answers, fmt.Sprint(w.Code, w.Header(), w.Body))
			}
			for _, path := range []string{"/memory/n/k", "/memory/n/unknown", "/memory/n/a:b"} {
				answers = append(answers, fmt.Sprint(s.simple(fastpath.Request{Method: http.MethodGet, Path: path})))
			}
			return answers
		}
		s.put(id("n", "k"), "v")
		ask()
		before := ask()
		s.listen(s.listener(), "monitor")
		if diff := cmp.Diff(before, ask()); diff != "" {
			t.Errorf("(-before +now):\n%s", diff)
		}
	})
}

// A reader may ask for only one namespace.
func TestTheMonitorOfANamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		a := s.listen(s.listener(), "monitor?namespace=n")
		s.put(id("n", "k"), "val")
		s.put(id("other", "k"), "val")
		s.do(http.MethodPut, "/memory/n/a:b", putBody("val"))
		wantShown(t, a, "PUT /memory/n/k 200 pending 15", "PUT /memory/n/a:b 400 refused 15")
	})
}

// Requests that a reader cannot follow are counted.
func TestTheMonitorSkips(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.put(id("n", "k"), "v")
		a := s.listen(s.listener(), "monitor")
		const asked = 10_000
		for range asked {
			s.get("/memory/n/k")
		}
		time.Sleep(time.Second)
		shown, skipped := 0, 0
		for _, e := range a.take() {
			if e.Name == eventSkipped {
				skipped += int(read[api.Skipped](t, e).Requests)
				continue
			}
			shown++
		}
		if shown+skipped != asked || shown == 0 || shown > monitorKept {
			t.Errorf("of %d requests it shows %d, and skips %d", asked, shown, skipped)
		}
	})
}

// Requests to the daemon's own API, and forwarded ones, are not shown.
func TestTheMonitorShowsNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		a := s.listen(s.listener(), "monitor")
		s.get("/_botwired/status")
		s.get("/_botwired")
		s.get("/channels/x")
		wantShown(t, a)
	})
}

// Names that no client would send take no room.
func TestTheMonitorCutsNames(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		a := s.listen(s.listener(), "monitor")
		s.get("/memory/" + strings.Repeat("n", 5000) + "/" + strings.Repeat("k", 5000))
		s.get("/memory/" + strings.Repeat("%80", 5000) + "/k") // not UTF-8
		shown := a.take()
		if len(shown) != 2 {
			t.Errorf("it shows %d requests", len(shown))
		}
		for _, e := range shown {
			if len(e.Data) > 8*monitorName {
				t.Errorf("it shows %d bytes", len(e.Data))
			}
		}
	})
}
