package wire_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/wire"
)

func TestParseRoute(t *testing.T) {
	entry := func(ns, key string) wire.Route {
		return wire.Route{Kind: wire.EntryRoute, Namespace: ns, Key: key}
	}
	list := func(ns string) wire.Route { return wire.Route{Kind: wire.ListRoute, Namespace: ns} }
	missing, redirect, other := wire.Route{Kind: wire.Missing}, wire.Route{Kind: wire.Redirect}, wire.Route{}
	for path, want := range map[string]wire.Route{
		"/memory/ns/k":          entry("ns", "k"),
		"/memory/ns/..":         entry("ns", ".."),
		"/memory/../k":          entry("..", "k"),
		"/memory/a b/k\n":       entry("a b", "k\n"),
		"/memory/ns/\n":         entry("ns", "\n"),
		"/memory/ns":            list("ns"),
		"/memory/memory":        list("memory"),
		"/memory":               missing,
		"/memory/":              missing,
		"/memory//":             missing,
		"/memory//k":            missing,
		"/memory/ns//k":         missing,
		"/memory/ns/a/b":        missing,
		"/memory/ns/a/b/":       missing,
		"//memory/ns/k":         missing,
		"//memory":              missing,
		"///memory/ns":          missing,
		"//memory/ns/k/":        missing,
		"/memory/ns/":           redirect,
		"/memory/ns///":         redirect,
		"/memory/ns/k/":         redirect,
		"/memory/ns/k//":        redirect,
		"/":                     other,
		"":                      other,
		"*":                     other,
		"/Memory/ns/k":          other,
		"/memoryx/ns":           other,
		"/memories":             other,
		"/stats/memory":         other,
		"//stats/memory":        other,
		"/x/../memory/ns/k":     other,
		"/config/agent/memory/": other,
	} {
		if diff := cmp.Diff(want, wire.ParseRoute(path)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
}

// The path is decoded first, so an escaped slash separates and an escaped letter is the letter.
func TestParseRouteOfDecodedPath(t *testing.T) {
	for target, want := range map[string]wire.Kind{
		"/memory/ns/a%2Fb":  wire.Missing,
		"/memory%2Fns/k":    wire.EntryRoute,
		"/%6Demory/ns/k":    wire.EntryRoute,
		"/memory/ns/%2e%2e": wire.EntryRoute,
		"/memory/ns%2F":     wire.Redirect,
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := wire.ParseRoute(u.Path); got.Kind != want {
			t.Errorf("%s: kind %d, want %d", target, got.Kind, want)
		}
	}
}

func TestRedirectLocation(t *testing.T) {
	for _, c := range []struct{ host, target, want string }{
		{"127.0.0.1:2689", "/memory/ns/", "http://127.0.0.1:2689/memory/ns"},
		{"127.0.0.1:2689", "/memory/ns///?limit=2&x=%20", "http://127.0.0.1:2689/memory/ns?limit=2&x=%20"},
		{"localhost", "/memory/ns/k//", "http://localhost/memory/ns/k"},
		{"localhost", "/memory/ns/?", "http://localhost/memory/ns"},
		{"[::1]:80", "/memory/ns/", "http://[::1]:80/memory/ns"},
		{"h", "/memory/a%20b/%C3%A9~%22%0A%2F", "http://h/memory/a%20b/%C3%A9~%22%0A"},
		{"h", "/memory/a%3Fb/", "http://h/memory/a?b"},
		{"h", "/memory/a%FFb/", "http://h/memory/a%EF%BF%BDb"},
		{"h", `/memory/n/?q="<>`, "http://h/memory/n?q=%22%3C%3E"},
	} {
		u, err := url.ParseRequestURI(c.target)
		if err != nil {
			t.Fatal(err)
		}
		if got := wire.RedirectLocation(&http.Request{Host: c.host, URL: u}); got != c.want {
			t.Errorf("%s%s: got %s, want %s", c.host, c.target, got, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name    string
		refusal *wire.Refusal
		status  int
		body    string
	}{
		{"detail", wire.Detail(507, "a \"b\"\n<é>"), 507, `{"detail":"a \"b\"\n<é>"}`},
		{"not found", wire.NotFound("ns", "k"), 404, `{"detail":"Key not found: ns/k"}`},
		{"method", wire.MethodNotAllowed(), 405, `{"detail":"Method Not Allowed"}`},
		{"namespace", wire.CheckNamespace("a.b"), 400, `{"detail":"Invalid namespace. Use 1-64 alphanumeric/underscore/dash chars."}`},
		{"key", wire.CheckKey("a:b"), 400, `{"detail":"Invalid key. Use 1-128 alphanumeric/underscore/dash/dot chars."}`},
		{"namespace first", wire.CheckEntry("a.b", "a:b"), 400, `{"detail":"Invalid namespace. Use 1-64 alphanumeric/underscore/dash chars."}`},
		{"key second", wire.CheckEntry("ab", "a:b"), 400, `{"detail":"Invalid key. Use 1-128 alphanumeric/underscore/dash/dot chars."}`},
		{"size", wire.CheckSize(strings.Repeat("é", 100_001)), 400, `{"detail":"Value too large. Max 100KB."}`},
	} {
		w := httptest.NewRecorder()
		c.refusal.Write(w)
		if w.Code != c.status || w.Body.String() != c.body || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %d %v %s, want %d %s", c.name, w.Code, w.Header(), w.Body, c.status, c.body)
		}
		if got := w.Header().Get("Allow"); (got == "GET") != (c.status == 405) {
			t.Errorf("%s: Allow is %q", c.name, got)
		}
	}
}

func TestNames(t *testing.T) {
	for _, ns := range []string{"a", "A-z_09", strings.Repeat("n", 64)} {
		if r := wire.CheckNamespace(ns); r != nil {
			t.Errorf("namespace %q: %s", ns, r.Body)
		}
	}
	for _, ns := range []string{"", "a.b", "a b", "é", "a\n", "\n", "a/b", strings.Repeat("n", 65)} {
		if wire.CheckNamespace(ns) == nil {
			t.Errorf("namespace %q is accepted", ns)
		}
	}
	for _, key := range []string{"a", ".", "..", "A-z_0.9", strings.Repeat("k", 128)} {
		if r := wire.CheckEntry("ns", key); r != nil {
			t.Errorf("key %q: %s", key, r.Body)
		}
	}
	for _, key := range []string{"", "a b", "a:b", "é", "k\n", "a\x00", strings.Repeat("k", 129)} {
		if wire.CheckKey(key) == nil {
			t.Errorf("key %q is accepted", key)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		value          string
		stored, listed int
		accepted       bool
	}{
		{"", 0, 0, true},
		{"héllo 🚀", 7, 7, true},
		{"ab\x00cd", 5, 2, true},
		{"\x00", 1, 0, true},
		{strings.Repeat("🚀", 100_000), 100_000, 100_000, true},
		{strings.Repeat("x", 100_001), 100_001, 100_001, false},
	} {
		if got := wire.CodePoints(c.value); got != c.stored {
			t.Errorf("%.10q: %d code points, want %d", c.value, got, c.stored)
		}
		if got := wire.ListBytes(c.value); got != c.listed {
			t.Errorf("%.10q: %d bytes in a list, want %d", c.value, got, c.listed)
		}
		if got := wire.CheckSize(c.value) == nil; got != c.accepted {
			t.Errorf("%.10q: accepted is %t", c.value, got)
		}
	}
}

func FuzzParseRoute(f *testing.F) {
	for _, path := range []string{"/memory/ns/k", "/memory/ns/", "//memory/ns", "/memory", "", "/memory/a/b/c"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		route := wire.ParseRoute(path)
		rebuilt := "/memory/" + route.Namespace
		switch route.Kind {
		case wire.EntryRoute:
			rebuilt += "/" + route.Key
			fallthrough
		case wire.ListRoute:
			if rebuilt != path {
				t.Errorf("%q came back as %q", path, rebuilt)
			}
		case wire.Redirect:
			if k := wire.ParseRoute(strings.TrimRight(path, "/")).Kind; k != wire.EntryRoute && k != wire.ListRoute {
				t.Errorf("%q is redirected to no route", path)
			}
		}
	})
}
