package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/proxy/dashboard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T) dashboard.Assets {
	t.Helper()
	assets, err := dashboard.Load()
	if err != nil {
		t.Fatal(err)
	}
	return assets
}

func answer(asset http.Handler, method string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, dashboard.Path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	asset.ServeHTTP(w, r)
	return w
}

// Every answer, even a 304, has the headers that keep out other origins and foreign code.
func TestEveryAssetIsGuarded(t *testing.T) {
	for name, asset := range load(t) {
		fresh := answer(asset, http.MethodGet)
		if fresh.Code != http.StatusOK || fresh.Body.Len() == 0 {
			t.Errorf("%s: %d, %d bytes", name, fresh.Code, fresh.Body.Len())
		}
		tag := fresh.Header().Get("ETag")
		again := answer(asset, http.MethodGet, "If-None-Match", tag)
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s with its own tag: %d, %d bytes", name, again.Code, again.Body.Len())
		}
		if other := answer(asset, http.MethodGet, "If-None-Match", `"another"`); other.Code != http.StatusOK {
			t.Errorf("%s with another tag: %d", name, other.Code)
		}
		if head := answer(asset, http.MethodHead); head.Code != http.StatusOK || head.Body.Len() != 0 {
			t.Errorf("HEAD of %s: %d, %d bytes", name, head.Code, head.Body.Len())
		}
		for header, part := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
				"require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-cache",
			"ETag":                         tag,
		} {
			for _, w := range []*httptest.ResponseRecorder{fresh, again} {
				if got := w.Header().Get(header); got != part {
					t.Errorf("%s, %d: %s is %q", name, w.Code, header, got)
				}
			}
		}
	}
}

// links matches the files that the page and its scripts load, but not <a href>, which people follow.
var links = regexp.MustCompile(`(?:src="|<link [^>]*href=")([^"#]+)"|from "([^"]+)"`)

// The page loads only files of the daemon's own, all of which exist. No file is left over.
func TestThePageIsComplete(t *testing.T) {
	assets := load(t)
	used := map[string]bool{"": true}
	for name := range assets {
		file, folder := name, path.Dir(name)
		if name == "" {
			file, folder = "assets/index.html", ""
		}
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".svg") || strings.Contains(name, "vendor/") {
			used[name] = used[name] || strings.HasSuffix(name, ".LICENSE.txt")
			continue
		}
		for _, link := range links.FindAllStringSubmatch(string(text), -1) {
			target := path.Join(folder, link[1]+link[2])
			if assets[target] == nil {
				t.Errorf("%s loads %q, which is not there", file, target)
			}
			used[target] = true
		}
		for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "://cdn", "https://"} {
			if strings.Contains(string(text), forbidden) {
				t.Errorf("%s has %q", file, forbidden)
			}
		}
	}
	for name := range assets {
		if !used[name] {
			t.Errorf("nothing loads %s", name)
		}
	}
}

// maxLines bounds a file to what one can read in one go, as in the Go code.
const maxLines = 450

func TestAssetsAreSmall(t *testing.T) {
	own, err := filepath.Glob("assets/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range own {
		if name == "assets/vendor" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); lines > maxLines {
			t.Errorf("%s has %d lines, and %d are the most", name, lines, maxLines)
		}
	}
}

// chromium holds the headers that Chromium sends when somebody types an address.
var chromium = map[string]string{
	"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
}

func TestOpensAndLeads(t *testing.T) {
	for _, c := range []struct {
		what, method, path, header, value string
		opens, leads                      bool
	}{
		{"the page", "GET", "/_botwired/", "", "", true, false},
		{"the page without its slash", "GET", "/_botwired", "", "", true, false},
		{"the bare address", "GET", "/", "", "", true, true},
		{"in a frame", "GET", "/_botwired/", "Sec-Fetch-Dest", "iframe", false, false},
		{"the bare address in a frame", "GET", "/", "Sec-Fetch-Dest", "iframe", false, true},
		{"a fetch", "GET", "/", "Sec-Fetch-Mode", "cors", false, false},
		{"a fetch of the page", "GET", "/_botwired/", "Sec-Fetch-Mode", "no-cors", false, false},
		{"a form", "POST", "/_botwired/", "", "", false, false},
		{"a form to the bare address", "POST", "/", "", "", false, false},
		{"no document", "GET", "/", "Accept", "application/json", false, false},
		{"the status", "GET", "/_botwired/status", "", "", false, false},
		{"an asset", "GET", "/_botwired/assets/app.js", "", "", false, false},
		{"an entry", "GET", "/memory/ns/key", "", "", false, false},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		for name, value := range chromium {
			r.Header.Set(name, value)
		}
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		if got := dashboard.Opens(r); got != c.opens {
			t.Errorf("%s: Opens is %t", c.what, got)
		}
		if got := dashboard.Leads(r); got != c.leads {
			t.Errorf("%s: Leads is %t", c.what, got)
		}
	}
	// Over a network, browsers send no Sec-Fetch header, and programs accept anything.
	for accept, leads := range map[string]bool{"text/html,*/*;q=0.8": true, "*/*": false, "application/json, text/html": false, "": false} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		if got := dashboard.Leads(r); got != leads || dashboard.Opens(r) {
			t.Errorf("Accept: %s: Leads is %t", accept, got)
		}
	}
}
