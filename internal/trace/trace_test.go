package trace

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestParents(t *testing.T) {
	for text, want := range map[string]bool{
		parent: true,
		"cc" + parent[2:] + "-what-the-future-will-be-like": true,
		parent + "-more":            false, // version 00 has nothing after the flags
		"cc" + parent[2:] + ".more": false,
		"ff" + parent[2:]:           false,
		strings.ToUpper(parent):     false,
		parent[:54]:                 false,
		"":                          false,
		"00-" + strings.Repeat("0", 32) + parent[35:]:  false,
		parent[:36] + strings.Repeat("0", 16) + "-01":  false,
		strings.Replace(parent, "-00f0", "_00f0", 1):   false,
		strings.Replace(parent, "4bf9", "4bg9", 1):     false,
		"cc" + parent[2:] + strings.Repeat("-x", 1000): false,
	} {
		if got := Parse(text, "a=b"); got.Given() != want || !want && got.State != "" {
			t.Errorf("%q: %+v, want %v", text, got, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	in := http.Header{"Traceparent": {parent}, "Tracestate": {"a=1", "b=2"}}
	out := make(http.Header)
	c := FromHeader(in)
	c.Set(out)
	if out.Get("traceparent") != parent || out.Get("tracestate") != "a=1,b=2" {
		t.Errorf("passed on: %v", out)
	}
	if got := From(With(t.Context(), c)); got != c {
		t.Errorf("in a context: %+v", got)
	}
	in["Tracestate"] = []string{strings.Repeat("x", maxState+1)}
	if got := FromHeader(in); got != (Context{parent, ""}) {
		t.Errorf("with a long state: %+v", got)
	}
	in["Traceparent"] = []string{parent, parent}
	if FromHeader(in).Given() {
		t.Error("two parents are one")
	}
	empty := make(http.Header)
	if FromHeader(empty).Set(empty); len(empty) != 0 {
		t.Errorf("none is %v", empty)
	}
}

func TestWritesAreRemembered(t *testing.T) {
	w, c := NewWrites(), Context{Parent: parent}
	other := Context{Parent: parent, State: "other=1"}
	w.Note("ns/k", 2, other)
	w.Note("ns/k", 1, c) // its caller was slower
	w.Note("ns/through", 0, c)
	w.Note("ns/none", 3, Context{})
	for _, row := range []struct {
		entry string
		seq   uint64
		want  Context
	}{
		{"ns/k", 2, other}, {"ns/k", 1, Context{}}, {"ns/k", 3, Context{}}, {"ns/through", 7, c}, {"ns/none", 3, Context{}},
	} {
		if got := of(w, row.entry, row.seq); got != row.want {
			t.Errorf("%s, %d: %+v, want %+v", row.entry, row.seq, got, row.want)
		}
	}
	w.Forget("ns/through", other)
	if of(w, "ns/through", 7) != c {
		t.Error("another caller's is forgotten")
	}
	if w.Forget("ns/through", c); of(w, "ns/through", 7).Given() {
		t.Error("it is not forgotten")
	}
	for i := range writesKept {
		w.Note("more/"+strconv.Itoa(i), 9, c)
	}
	if len(w.of) != writesKept || of(w, "ns/k", 2).Given() || !of(w, "more/0", 9).Given() {
		t.Errorf("%d are remembered", len(w.of))
	}
}

func of(w *Writes, entry string, seq uint64) Context {
	c, _ := w.Of(entry, seq)
	return c
}
