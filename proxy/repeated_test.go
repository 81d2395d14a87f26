package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// wantAgain checks that a repetition got the first answer.
func wantAgain(t *testing.T, first, again *httptest.ResponseRecorder) {
	t.Helper()
	wantStatus(t, again, http.StatusOK)
	if got, want := again.Body.String(), first.Body.String(); got != want {
		t.Errorf("again %s, at first %s", got, want)
	}
	wantHeader(t, again, "Etag", first.Header().Get("Etag"))
}

// contract 5: a repeated write is made once, even if others have written since, it has settled, or the machine
// has crashed.
func TestARepeatedWriteIsMadeOnce(t *testing.T) {
	k := id("n", "k")
	for name, write := range map[string]func(s *sidecar, key string) *httptest.ResponseRecorder{
		"put": func(s *sidecar, key string) *httptest.ResponseRecorder {
			return s.put(k, "ten", "Idempotency-Key", key)
		},
		"put if none": func(s *sidecar, key string) *httptest.ResponseRecorder {
			return s.do(http.MethodPut, "/memory/n/k", putBody("ten"), "Idempotency-Key", key, "If-None-Match", "*")
		},
		"append": func(s *sidecar, key string) *httptest.ResponseRecorder {
			return s.add(k, "+", "tén", "Idempotency-Key", key)
		},
		"delete": func(s *sidecar, key string) *httptest.ResponseRecorder {
			return s.do(http.MethodDelete, "/memory/n/k", "", "Idempotency-Key", key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				s := newSidecar(t, func(stored *journal.Options, _ *proxy.Options) { stored.FS = fs })
				if name == "delete" {
					s.put(k, "nine")
				}
				first := write(s, "a")
				wantStatus(t, first, http.StatusOK)
				seq := s.journal.Stats().LastSeq
				wantAgain(t, first, write(s, "a"))
				wantHeader(t, write(s, "a"), "Botwired-Write", first.Header().Get("Botwired-Write"))
				s.put(k, "ten") // another caller, with the same value
				wantAgain(t, first, write(s, "a"))
				s.settle(k)
				wantAgain(t, first, write(s, "a"))
				s.put(k, "eleven")
				s = s.crash(fs)
				wantAgain(t, first, write(s, "a"))
				wantValue(t, s.get("/memory/n/k"), "eleven")
				if now := s.journal.Stats().LastSeq; now != seq+2 {
					t.Errorf("%d writes were made, want %d", now, seq+2)
				}
				if name == "put if none" {
					wantStatus(t, write(s, "b"), http.StatusPreconditionFailed)
					return
				}
				wantStatus(t, write(s, "b"), http.StatusOK) // another write
				if now := s.journal.Stats().LastSeq; now != seq+3 {
					t.Errorf("%d writes were made, want %d", now, seq+3)
				}
			})
		})
	}
}

// contract 5: a request that the entry's state has refused is refused again, whatever others have written since, also
// after a crash.
func TestARefusedRequestStaysRefused(t *testing.T) {
	k := id("n", "k")
	for name, test := range map[string]struct {
		refuses, allows func(s *sidecar) // make a state that refuses the request, and one that would not
		ask             func(s *sidecar, key string) *httptest.ResponseRecorder
		status          int
	}{
		"delete": {
			func(*sidecar) {}, func(s *sidecar) { s.put(k, "other") },
			func(s *sidecar, key string) *httptest.ResponseRecorder {
				return s.do(http.MethodDelete, "/memory/n/k", "", "Idempotency-Key", key)
			}, http.StatusNotFound,
		},
		"put if none": {
			func(s *sidecar) { s.put(k, "other") }, func(s *sidecar) { s.do(http.MethodDelete, "/memory/n/k", "") },
			func(s *sidecar, key string) *httptest.ResponseRecorder {
				return s.do(http.MethodPut, "/memory/n/k", putBody("v"), "Idempotency-Key", key, "If-None-Match", "*")
			}, http.StatusPreconditionFailed,
		},
		"append if": {
			func(*sidecar) {}, func(s *sidecar) { s.put(k, "other") },
			func(s *sidecar, key string) *httptest.ResponseRecorder {
				return s.add(k, "+", "v", "Idempotency-Key", key, "If-Match", "*")
			}, http.StatusPreconditionFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				s := newSidecar(t, func(stored *journal.Options, _ *proxy.Options) { stored.FS = fs })
				test.refuses(s)
				first := test.ask(s, "a")
				wantStatus(t, first, test.status)
				test.allows(s)
				made := s.journal.Stats().LastSeq
				for range 2 {
					again := test.ask(s, "a")
					wantStatus(t, again, test.status)
					if got, want := again.Body.String(), first.Body.String(); got != want {
						t.Errorf("again %s, at first %s", got, want)
					}
					s = s.crash(fs)
				}
				other := s.do(http.MethodPut, "/memory/n/k", putBody("w"), "Idempotency-Key", "a")
				wantStatus(t, other, http.StatusUnprocessableEntity)
				if now := s.journal.Stats().LastSeq; now != made {
					t.Errorf("%d writes were made, want %d", now, made)
				}
				wantStatus(t, test.ask(s, "b"), http.StatusOK)
			})
		})
	}
}

// A refusal that says nothing about the entry's state leaves no name: a repetition is another attempt.
func TestARequestThatWasNotJudgedMayBeRepeated(t *testing.T) {
	s := newSidecar(t, func(stored *journal.Options, _ *proxy.Options) { stored.MaxBytes = 1 << 16 })
	put := func() *httptest.ResponseRecorder {
		return s.do(http.MethodPut, "/memory/n/k", putBody(strings.Repeat("x", 50_000)), "Idempotency-Key", "a")
	}
	s.put(id("n", "other"), strings.Repeat("x", 50_000))
	wantStatus(t, put(), http.StatusInsufficientStorage)
	s.settle(id("n", "other"))
	wantStatus(t, put(), http.StatusOK)
}

// A name is one of an entry: a request with another content is refused, and the same name for another entry is
// another name.
func TestANameOfAnotherRequest(t *testing.T) {
	s, k := newSidecar(t), id("n", "k")
	wantStatus(t, s.put(k, "v", "Idempotency-Key", "a"), http.StatusOK)
	for _, w := range []*httptest.ResponseRecorder{
		s.do(http.MethodPut, "/memory/n/k", putBody("w"), "Idempotency-Key", "a"),
		s.add(k, "", "v", "Idempotency-Key", "a"),
		s.do(http.MethodDelete, "/memory/n/k", "", "Idempotency-Key", "a"),
	} {
		wantStatus(t, w, http.StatusUnprocessableEntity)
	}
	wantValue(t, s.get("/memory/n/k"), "v")
	wantStatus(t, s.put(id("n", "other"), "w", "Idempotency-Key", "a"), http.StatusOK)
	wantStatus(t, s.put(id("m", "k"), "w", "Idempotency-Key", "a"), http.StatusOK)
}

// A repetition may come while the first request is being carried out.
func TestRepetitionsAtOnce(t *testing.T) {
	s, k := newSidecar(t), id("n", "k")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { s.add(k, "", "x", "Idempotency-Key", "a") })
	}
	all.Wait()
	wantValue(t, s.get("/memory/n/k"), "x")
}

func TestARepeatedWriteThroughGoesUpstreamOnce(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		k := id("through", "k")
		first := s.put(k, "v", "Idempotency-Key", "a")
		wantHeader(t, first, "Botwired-Write", "settled; seq=1")
		s.upstream.set(k, "of another host")
		again := s.put(k, "v", "Idempotency-Key", "a")
		wantAgain(t, first, again)
		wantHeader(t, again, "Botwired-Write", "settled; seq=1")
		if value, _ := s.upstream.holds(k); value != "of another host" {
			t.Errorf("upstream holds %q", value)
		}
	})
}

// A caller that gives no name, or two, believes that its repetition is safe: nothing is written.
func TestANameIsGivenOnce(t *testing.T) {
	s := newSidecar(t)
	wantStatus(t, s.do(http.MethodPut, "/memory/n/k", putBody("v"), "Idempotency-Key", ""), http.StatusBadRequest)
	wantStatus(t, s.do(http.MethodPut, "/memory/n/k", putBody("v"), "Idempotency-Key", "a", "Idempotency-Key", "b"), http.StatusBadRequest)
	if n := s.journal.Stats().LastSeq; n != 0 {
		t.Errorf("%d writes were made", n)
	}
}
