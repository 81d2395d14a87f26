package proxy_test

import (
	"net/http"
	"testing"
)

// A gateway on the way to upstream may clean a path. No forwarded path becomes one of the memory API by that:
// a write would bypass the journal.
func TestAPathThatMayBecomeAnotherIsNotPassedOn(t *testing.T) {
	s := newSidecar(t)
	for _, target := range []string{
		"/x/../memory/ns/key", "/./memory/ns/key", "/x/./y", "/..", "/.", "/x/..", "/x/../", "/a/b/../c",
		"/x/%2e%2e/memory/ns/key", "/x/.%2E/memory/ns/key", "/%2e/memory/ns/key", "/x%2F..%2Fmemory/ns/key",
		"/x/%252e%252e/memory/ns/key", "/x/..;/memory/ns/key", "/x/..;a=b/memory/ns/key",
		"/x/..%5cmemory/ns/key", "/x%5c..%5cmemory%5cns%5ckey", "/%5cmemory/ns/key", "/%5Cmemory%5Cns%5Ckey",
		"/x/%252e%252e%252fmemory/n/k", "/x/..%252fmemory/n/k", "/memory%252fn%252fk", "/%256demory/n/k", "/x/..%255cmemory/n/k",
		"/x/..%25255Cmemory/n/k", "/;/memory/ns/key", "/memory;x/ns/key", "/;x/;y/memory;z/ns/key",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPost} {
			wantDetail(t, s.do(method, target, putBody("v")), http.StatusBadRequest, "does not pass it on")
		}
	}
	if len(s.passed) > 0 {
		t.Errorf("passed on: %q", s.passed)
	}
	harmless := []string{
		"/", "/health", "/x//y", "//x", "/.well-known/x", "/x/...", "/x/..y", "/x/y..", "/x/memory/ns/key", "/memories", "/x;y", "/a%2Fb",
		"/a%5Cb", "/x/memory;y", "/?p=/../memory/ns/key",
	}
	for _, target := range harmless {
		wantStatus(t, s.get(target), http.StatusTeapot)
	}
	if len(s.passed) != len(harmless) {
		t.Errorf("passed on: %q", s.passed)
	}
}
