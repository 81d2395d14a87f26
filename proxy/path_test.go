package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

func nothingSealed(_ *journal.Options, o *proxy.Options) { o.Sealed, o.NotOpened = nil, nil }

// A gateway on the way to upstream may clean a path. No forwarded path becomes one of the memory API by that:
// a write would bypass the journal.
func TestAPathThatMayBecomeAnotherIsNotPassedOn(t *testing.T) {
	s := newSidecar(t, nothingSealed)
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

// While a namespace is sealed, a path is not passed on that somebody on the way may take for one of the memory API's,
// however it is written: its value would not be sealed.
func TestAPathThatMayBypassASealIsNotPassedOn(t *testing.T) {
	s := newSidecar(t)
	for _, target := range []string{
		"/Memory/sealed/k", "/MEMORY/sealed/k", "/MEMORY", "/v1/memory/sealed/k", "/v1/MeMory/sealed/k", "/memory.json/sealed/k", "/memory;v=1/sealed/k",
		"/%4demory/sealed/k", "/%254Demory/sealed/k", "/v1%2fmemory%2fsealed%2fk", "/%25256d%2565mory/sealed/k", "/x/%6d%65%6d%6f%72%79/sealed/k",
		"/x/mem%09ory/sealed/k", "/mem%00ory/sealed/k", "/%25%36%64%65mory/sealed/k", "/api/v2/memory-api/sealed/k", "//v1//memory//sealed/k", "/v1/memory",
		"/%25u006demory/sealed/k", "/%25U004Demory/sealed/k", "/%EF%BD%8Demory/sealed/k", "/memor%C3%BD/sealed/k", "/%FFmemor/k",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPost} {
			wantDetail(t, s.do(method, target, putBody("v")), http.StatusBadRequest, "does not pass it on")
		}
	}
	for _, path := range []string{"/Memory/sealed/k", "/v1/memory/sealed/k"} {
		wantSame(t, s, path, fastpath.Request{Method: http.MethodPut, Path: path, JSON: true, Body: []byte(putBody("v"))}, byHandler)
	}
	wantDetail(t, s.get("/v1/memory/sealed/k"), http.StatusBadRequest, "A namespace is sealed", "/memory/NAMESPACE/KEY")
	if len(s.passed) > 0 {
		t.Errorf("passed on: %q", s.passed)
	}
	for _, target := range []string{"/", "/health", "/memories", "/mem/ory", "/?p=/memory/sealed/k", "/stats/memory"} {
		wantStatus(t, s.get(target), http.StatusTeapot)
	}
}

// A long path of nested escapes costs no more time than any other of its length.
func TestALongPathOfEscapes(t *testing.T) {
	for name, path := range map[string]string{
		"nested": "/%" + strings.Repeat("25", 500_000) + "6demory/sealed/k", "side by side": "/" + strings.Repeat("%25", 300_000) + "6demory",
	} {
		t.Run(name, func(t *testing.T) {
			for _, adjust := range []func(*journal.Options, *proxy.Options){nothingSealed, func(*journal.Options, *proxy.Options) {}} {
				s := newSidecar(t, adjust)
				began := time.Now()
				s.do(http.MethodGet, path, "")
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %s", took)
				}
			}
		})
	}
}
