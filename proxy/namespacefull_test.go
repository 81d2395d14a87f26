package proxy_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// A write for which its namespace has no room gets a 413 with the reason. The status shows the sizes of
// namespaces with pending writes and of nearly full ones.
func TestAFullNamespaceIsTold(t *testing.T) {
	limits := map[string]int64{"n": 100, "learnt": 0, "other": 0}
	sizes := journal.NewSizes(journal.SizesOptions{
		Limit: func(namespace string) int64 { return limits[namespace] }, Logger: slog.New(slog.DiscardHandler),
	})
	s := newSidecar(t, func(j *journal.Options, o *proxy.Options) { j.Sizes, o.Sizes = sizes, sizes })
	s.put(id("n", "k"), strings.Repeat("é", 90)) // characters count
	s.put(id("learnt", "k"), "1234")
	s.put(id("other", "k"), "v")
	sizes.Learn("learnt")
	const why = "the write was not taken, and nothing of it is kept: namespace n is full: it holds about 90 bytes, this write adds 11, " +
		"and quota.namespace_bytes allows 100. Delete entries, write shorter values, or raise quota.namespace_bytes if upstream allows more"
	w := s.do(http.MethodPut, "/memory/n/more", `{"value":"12345678901"}`)
	var refused struct{ Detail string }
	decode(t, w, &refused)
	if w.Code != http.StatusRequestEntityTooLarge || refused.Detail != why {
		t.Errorf("got %d %s, want 413 %s", w.Code, refused.Detail, why)
	}
	w = s.do(http.MethodPut, "/memory/learnt/more", `{"value":"v"}`)
	decode(t, w, &refused)
	const learnt = "namespace learnt is full: upstream has refused a write for that when it held about 4 bytes"
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(refused.Detail, learnt) {
		t.Errorf("got %d %s, want 413 and %s", w.Code, refused.Detail, learnt)
	}

	written, _, err := s.journal.Newest(id("n", "k"))
	if err == nil {
		err = s.journal.Settle(written)
	}
	if err != nil {
		t.Fatal(err)
	}
	type namespace struct {
		Namespace string
		Bytes     int
		Limit     *int       `json:"bytes_limit"`
		Learned   *time.Time `json:"bytes_limit_learned_until"`
	}
	var got struct{ Namespaces []namespace }
	decode(t, s.get("/_botwired/status"), &got)
	four, hundred := 4, 100
	until := sizes.Of("learnt").LearnedUntil.UTC().Round(time.Millisecond)
	want := []namespace{{"learnt", 4, &four, &until}, {"n", 90, &hundred, nil}, {"other", 1, nil, nil}}
	if diff := cmp.Diff(want, got.Namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}
