package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// A put for which a full namespace has no room left here gets a 413 with the reason.
func TestAPutBeyondAFullNamespacesShare(t *testing.T) {
	s := newSidecar(t, func(j *journal.Options, _ *proxy.Options) {
		j.MaxBytes, j.Full = 80_000, func(namespace string) bool { return namespace == "full" }
	})
	s.put(id("full", "k"), strings.Repeat("v", 9000))
	more := `{"value":"` + strings.Repeat("v", 500) + `"}`
	wantDetail(t, s.do(http.MethodPut, "/memory/full/more", more), http.StatusRequestEntityTooLarge,
		"the write was not taken, and nothing of it is kept: namespace full is full upstream, and its pending writes take ")
	if w := s.do(http.MethodPut, "/memory/other/more", more); w.Code != http.StatusOK {
		t.Errorf("in another namespace: %d %s", w.Code, w.Body)
	}
	if w := s.do(http.MethodDelete, "/memory/full/k", ""); w.Code != http.StatusOK {
		t.Errorf("a delete: %d %s", w.Code, w.Body)
	}
}

// The status tells of namespaces that are full, or nearly so by upstream's last list, and names what to delete.
func TestAFullNamespaceIsTold(t *testing.T) {
	limits := map[string]int64{"nearly": 1000, "roomy": 1001}
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
		o.MaxBytes = func(namespace string) int64 { return limits[namespace] }
	})
	for _, namespace := range []string{"full", "nearly", "roomy", "free"} {
		rows := []journal.Row{
			{Key: "a", ListBytes: 100, UpdatedAt: 1}, {Key: "b", ListBytes: 400, UpdatedAt: 2},
			{Key: "c", ListBytes: 99, UpdatedAt: 3}, {Key: "d", ListBytes: 201, UpdatedAt: 4},
		}
		if err := s.journal.BeginListing(namespace).Commit(rows, true); err != nil {
			t.Fatal(err)
		}
	}
	s.put(id("full", "more"), strings.Repeat("v", 1000)) // it is not upstream
	type namespace struct {
		Namespace, Full string
		Bytes           int
		Limit           *int `json:"bytes_limit"`
	}
	type finding struct {
		Kind, Level, Text, Remedy string
	}
	var got struct {
		Namespaces []namespace
		Summary    struct {
			finding
			Also []finding
		}
	}
	decode(t, s.get("/_botwired/status"), &got)
	thousand := 1000
	want := []namespace{{"full", "HTTP 507: namespace full is full", 800, nil}, {"nearly", "", 800, &thousand}}
	if diff := cmp.Diff(want, got.Namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	findings := append([]finding{got.Summary.finding}, got.Summary.Also...)
	for i, parts := range [][]string{
		{"namespace_full", "warning", "no room for more in full", "1 write waits", "the largest in full: b (400 bytes), d (201 bytes), a (100 bytes)"},
		{"namespace_nearly_full", "warning", "nearly is nearly full (about 800 of 1,000 bytes", "the largest in nearly: b (400 bytes)"},
	} {
		if len(findings) != 2 {
			t.Fatalf("%+v", findings)
		}
		f := findings[i]
		for _, part := range parts {
			if !strings.Contains(f.Kind+" "+f.Level+" "+f.Text+" "+f.Remedy, part) {
				t.Errorf("the finding lacks %q: %+v", part, f)
			}
		}
	}
}
