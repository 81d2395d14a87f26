package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A browser is redirected from the listener's bare address to the page. Upstream answers other callers that
// ask for "/".
func TestBrowserIsLedToTheDashboard(t *testing.T) {
	s := newSidecar(t)
	browse := func(target string, headers ...string) *httptest.ResponseRecorder {
		return s.do(http.MethodGet, target, "", append([]string{"Accept", "text/html,*/*;q=0.8", "Sec-Fetch-Mode", "navigate"}, headers...)...)
	}
	for _, target := range []string{"/", "/?utm=x", "/_botwired", "/_botwired?x"} {
		w := browse(target)
		wantStatus(t, w, http.StatusFound)
		wantHeader(t, w, "Location", "/_botwired/")
		wantHeader(t, w, "Cache-Control", "no-store")
	}
	for _, target := range []string{"/_botwired/", "/_botwired/?anything=x"} {
		w := browse(target)
		wantStatus(t, w, http.StatusOK)
		wantHeader(t, w, "Content-Type", "text/html; charset=utf-8")
	}
	wantStatus(t, s.get("/_botwired/assets/app.js"), http.StatusOK)
	wantStatus(t, s.do(http.MethodHead, "/_botwired/", ""), http.StatusOK)
	wantHeader(t, s.do(http.MethodPost, "/_botwired/", ""), "Allow", "GET")
	for _, target := range []string{"/_botwired/assets", "/_botwired/assets/", "/_botwired/assets/index.html", "/_botwired/assets/none.js", "/_botwired/assets/vendor/VENDORED", "/_botwired/assets/../status"} {
		wantDetail(t, s.get(target), http.StatusNotFound)
	}
	if len(s.passed) > 0 {
		t.Errorf("passed on: %q", s.passed)
	}
	wantStatus(t, s.get("/"), http.StatusTeapot)
	wantStatus(t, browse("/health"), http.StatusTeapot)
	wantStatus(t, s.do(http.MethodPost, "/", "", "Accept", "text/html"), http.StatusTeapot)
	if len(s.passed) != 3 {
		t.Errorf("passed on: %q", s.passed)
	}
}
