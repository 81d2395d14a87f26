package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// A namespace's entries come in pages, beyond BotWire's 1,000.
func TestEntriesArePaged(t *testing.T) {
	s := newSidecar(t)
	for i := range 1005 {
		s.put(id("n", fmt.Sprintf("k%04d", i)), "v")
	}
	s.settle(id("n", "k0000"))
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/k0001", ""), http.StatusOK)
	var keys []string
	states := make(map[string]int)
	for after := ""; ; {
		var page api.Entries
		decode(t, s.get("/_botwired/entries?namespace=n&limit=400&after="+after), &page)
		if page.Complete {
			t.Error("the namespace was never listed")
		}
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
			states[e.State+" "+e.Op]++
		}
		if page.Next == nil {
			break
		}
		after = *page.Next
	}
	if len(keys) != 1005 || keys[0] != "k0000" || keys[1004] != "k1004" {
		t.Errorf("%d keys: %v", len(keys), keys)
	}
	if diff := cmp.Diff(map[string]int{"settled put": 1, "pending delete": 1, "pending put": 1003}, states); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var page api.Entries
	if decode(t, s.get("/_botwired/entries?namespace=n&prefix=k100"), &page); len(page.Entries) != 5 || page.Next != nil {
		t.Errorf("with a prefix: %+v", page)
	}
	if text := s.get("/_botwired/entries?namespace=other").Body.String(); text != `{"entries":[],"next":null,"complete":false}`+"\n" {
		t.Errorf("of an unknown namespace: %s", text)
	}
}

func TestNamespacesAreListed(t *testing.T) {
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
		o.Quotas = func() map[string]api.Quota {
			return map[string]api.Quota{"Alpha": {Limit: 10, Used: 1, Left: 9}}
		}
	})
	for i := range 13 {
		s.put(id("large", fmt.Sprint(i)), "v")
	}
	s.put(id("Alpha", "k"), "v")
	s.put(id("beta", "k"), "v")
	s.settle(id("beta", "k"))
	list := func(query string) (names []string, next any, all []map[string]any) {
		t.Helper()
		var got struct {
			Namespaces []map[string]any
			Next       any
		}
		decode(t, s.get("/_botwired/namespaces"+query), &got)
		for _, n := range got.Namespaces {
			names = append(names, fmt.Sprint(n["namespace"], " ", n["entries"], " ", n["pending"], " ", n["entries_at_least"]))
		}
		return names, got.Next, got.Namespaces
	}
	names, next, all := list("")
	if diff := cmp.Diff([]string{"Alpha 1 1 false", "beta 1 0 false", "large 13 13 false"}, names); diff != "" || next != nil {
		t.Errorf("next %v, (-want +got):\n%s", next, diff)
	}
	if q, _ := all[0]["quota"].(map[string]any); q["left"] != 9.0 || all[1]["quota"] != nil {
		t.Errorf("quotas: %v", all)
	}
	if names, next, _ := list("?limit=1&after=Alpha"); len(names) != 1 || !strings.HasPrefix(names[0], "beta") || next != "beta" {
		t.Errorf("%v, next %v", names, next)
	}
	if names, next, _ := list("?match=ALPH"); len(names) != 1 || next != nil {
		t.Errorf("%v, next %v", names, next)
	}
}

// A large namespace is not counted to its end.
func TestCountingIsBounded(t *testing.T) {
	s := newSidecar(t)
	s.put(id("small", "k"), "v")
	for i := range countedAtMost/2 + 1 {
		s.put(id("large", fmt.Sprint(i)), "v")
	}
	var got struct{ Namespaces []api.Namespace }
	decode(t, s.get("/_botwired/namespaces"), &got)
	if large, small := got.Namespaces[0], got.Namespaces[1]; large.Entries != countedAtMost/2 || !large.AtLeast || small.Entries != 1 || small.AtLeast {
		t.Errorf("%+v", got)
	}
}

// Forgetting drops the copy of one entry, and the next reader asks upstream. A pending write stays.
func TestForgettingAnEntry(t *testing.T) {
	s := newSidecar(t)
	s.learn(id("n", "k"), "old")
	s.upstream.set(id("n", "k"), "new")
	if got := s.get("/memory/n/k").Body.String(); !strings.Contains(got, `"old"`) {
		t.Fatalf("the copy is not fresh: %s", got)
	}
	s.cache.Await()
	if item, _ := s.cache.Get(cache.Key{Namespace: "n", Key: "k"}); item == nil {
		t.Fatal("memory has no answer to forget")
	}
	const target = "/_botwired/forget?namespace=n&key=k"
	want := `{"forgotten":1,"key":"k","namespace":"n"}` + "\n"
	if w := s.do(http.MethodPost, target, ""); w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := s.get("/memory/n/k").Body.String(); !strings.Contains(got, `"new"`) {
		t.Errorf("a reader gets %s", got)
	}
	s.put(id("n", "k"), "mine")
	wantDetail(t, s.do(http.MethodPost, target, ""), http.StatusConflict, "pending, and would be lost")
	if got := s.get("/memory/n/k").Body.String(); !strings.Contains(got, `"mine"`) {
		t.Errorf("a reader gets %s", got)
	}
}

// Scrapers look at the root, where upstream has nothing.
func TestMetricsAtTheRoot(t *testing.T) {
	s := newSidecar(t)
	if w := s.get("/metrics"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "botwired_pending 0") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if s.get("/metrics/more"); len(s.passed) != 1 {
		t.Errorf("passed on: %v", s.passed)
	}
}

// The status counts only callers of the memory API, on either path.
func TestCallers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		long := strings.Repeat("x", agentLength)
		s.put(id("n", "k"), "v", "User-Agent", "python-requests/2.32")
		s.get("/memory/n", "User-Agent", long+"yz")
		s.get("/health", "User-Agent", "other")
		time.Sleep(time.Second)
		s.simple(fastpath.Request{Method: http.MethodGet, Path: "/memory/n/k", Agent: []byte("python-requests/2.32")})
		var got api.Status
		decode(t, s.get("/_botwired/status", "User-Agent", "browser"), &got)
		now := time.Now().UTC().Truncate(time.Second)
		want := []api.Caller{{Agent: "python-requests/2.32", Requests: 2, LastAt: now}, {Agent: long, Requests: 1, LastAt: now.Add(-time.Second)}}
		if diff := cmp.Diff(want, got.Callers); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The figures count the answers given here and the requests upstream.
func TestFigures(t *testing.T) {
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
		o.Writes = func() (sent, saved int64) { return 7, 3 }
		o.DataDir, o.Listen = "/data", "127.0.0.1:2689"
	})
	s.learn(id("n", "k"), "v")
	s.get("/memory/n/k")
	s.get("/memory/n/unknown")
	s.put(id("n", "k"), "w")
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
	var got api.Status
	decode(t, s.get("/_botwired/status"), &got)
	reads := got.Reads
	if reads.Hits < 1 || reads.Upstream < 1 || reads.Total != reads.Hits+reads.Upstream {
		t.Errorf("reads: %+v", reads)
	}
	if diff := cmp.Diff(api.Writes{Acknowledged: 2, Sent: 7, Saved: 3}, got.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got.TimeSaved != nil || got.Disk.Free != nil || got.Disk.Journal <= 0 || got.Cache.Budget != 8<<20 {
		t.Errorf("%+v", got.Figures)
	}
	if got.DataDir != "/data" || got.Listen != "127.0.0.1:2689" || got.StartedAt.IsZero() {
		t.Errorf("%+v", got)
	}
}

func TestStatusOfSomeNamespaces(t *testing.T) {
	s := newSidecar(t)
	for _, n := range []string{"a", "b", "c", "locked"} {
		s.put(id(n, "k"), "v")
	}
	s.put(id("c", "l"), "v")
	for query, want := range map[string]string{"": "a b c locked", "?namespaces=2": "locked c", "?namespaces=0": ""} {
		var got api.Status
		decode(t, s.get("/_botwired/status"+query), &got)
		var names []string
		for _, n := range got.Namespaces {
			names = append(names, n.Namespace)
		}
		if strings.Join(names, " ") != want || got.NamespacesTotal != 4 {
			t.Errorf("%s: %v of %d", query, names, got.NamespacesTotal)
		}
	}
}

// The history has a point every ten seconds, for an hour.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
			o.Writes = func() (sent, saved int64) { return 4, 1 }
		})
		s.learn(id("n", "k"), "v")
		s.run()
		s.get("/memory/n/k")
		s.put(id("n", "l"), "v")
		times := s.opts.Metrics.UpstreamRequests
		times.Of("get", "confirmed").Observe(40 * time.Millisecond)
		times.Of("put", "confirmed").Observe(60 * time.Millisecond)
		times.Of("put", "unanswered").Observe(9 * time.Second)
		time.Sleep(historyStep + time.Second)
		history := func() (doc struct {
			Now     float64
			Step    float64 `json:"step_seconds"`
			Points  []api.Point
			Outages []api.Outage
		}) {
			t.Helper()
			decode(t, s.get("/_botwired/history"), &doc)
			return doc
		}
		got := history()
		if len(got.Points) != 1 || got.Step != 10 || got.Outages == nil {
			t.Fatalf("%+v", got)
		}
		p := got.Points[0]
		if p.Writes != 1 || p.Reads < 1 || p.Sent != 4 || p.Pending != 1 || got.Now-p.At != 1 {
			t.Errorf("%+v", p)
		}
		if p.UpstreamP50 == nil || *p.UpstreamP50 != 50_000 || *p.UpstreamP99 != 99_000 {
			t.Errorf("%+v", p)
		}
		var status api.Status
		// Half of the bucket from 25 to 50 ms for the hits, and half of that from 50 to 100 ms for the write.
		decode(t, s.get("/_botwired/status"), &status)
		want := float64(status.Reads.Hits)*0.0375 + 0.075
		if status.TimeSaved == nil || *status.TimeSaved < want-0.01 || *status.TimeSaved > want {
			t.Errorf("time saved: %v, want %v", status.TimeSaved, want)
		}
		s.flusher.await = func(context.Context, journal.ID, uint64) bool { return false }
		s.put(id("n", "awaited"), "v", "Prefer", "wait=1")
		var later api.Status
		if decode(t, s.get("/_botwired/status"), &later); later.Writes.Acknowledged != 2 || *later.TimeSaved != *status.TimeSaved {
			t.Errorf("with a write that has waited for upstream: %d writes, time saved %v, want 2 and %v", later.Writes.Acknowledged, *later.TimeSaved, *status.TimeSaved)
		}
		time.Sleep(2 * time.Hour)
		got = history()
		if last := got.Points[len(got.Points)-1]; len(got.Points) != historyLength || last.UpstreamP50 != nil || last.Writes != 0 {
			t.Errorf("%d points, the last %+v", len(got.Points), last)
		}
	})
}
