package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/proxy/memory"
)

// writesThrough makes namespaces that begin with "through" write through.
func writesThrough(_ *journal.Options, o *proxy.Options) {
	o.WriteThrough = func(namespace string) bool { return strings.HasPrefix(namespace, "through") }
}

func inThrough(t *testing.T, test func(*testing.T, *sidecar)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newSidecar(t, writesThrough)) })
}

// become makes write-throughs fail, or lets upstream do something first.
func (f *fakeFlusher) become(through func(w journal.NewWrite) (settled bool, err error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.through = through
}

// unwritten is the flusher's error for a write that was not acknowledged.
type unwritten struct{ status int }

func (u unwritten) Error() string             { return "the write was not acknowledged" }
func (u unwritten) WriteStatus() int          { return u.status }
func (u unwritten) RetryAfter() time.Duration { return 3 * time.Second }

func TestAWriteThroughIsAcknowledgedAsSettled(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		k := id("through", "k")
		w := s.put(k, "v", "Prefer", "wait=1")
		wantHeader(t, w, "Botwired-Write", "settled; seq=1")
		wantHeader(t, w, "Etag", memory.WriteTag(1, "v"))
		if got, want := w.Body.String(), `{"namespace":"through","key":"k","stored":true,"bytes":1}`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if value, _ := s.upstream.holds(k); value != "v" || s.journal.Stats().Pending != 0 {
			t.Errorf("upstream holds %q, and %d are pending", value, s.journal.Stats().Pending)
		}
		read := s.get("/memory/through/k")
		wantValue(t, read, "v")
		wantHeader(t, read, "Cache-Status", "botwired; hit")
		wantHeader(t, read, "Etag", memory.WriteTag(1, "v"))
		wantHeader(t, s.put(id("other", "k"), "v"), "Botwired-Write", "pending; seq=2")

		wantHeader(t, s.do(http.MethodDelete, "/memory/through/k", ""), "Botwired-Write", "settled; seq=3")
		wantStatus(t, s.get("/memory/through/k"), http.StatusNotFound)
		s.flusher.become(func(journal.NewWrite) (bool, error) { return false, nil })
		wantHeader(t, s.put(k, "v"), "Botwired-Write", "pending; seq=4") // an earlier write may land over it
		wantAsked(t, s, question{ID: k, Waits: true})
	})
}

// A write-through that fails leaves the old value, and says so.
func TestAWriteThroughThatFails(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		k := id("through", "k")
		s.put(k, "old")
		for _, status := range []int{429, 502, 503, 504} {
			s.flusher.become(func(journal.NewWrite) (bool, error) { return false, unwritten{status} })
			w := s.do(http.MethodPut, "/memory/through/k", putBody("new"))
			wantDetail(t, w, status, "not acknowledged")
			wantHeader(t, w, "Retry-After", "3")
			wantHeader(t, w, "Botwired-Write", "")
			wantStatus(t, s.do(http.MethodDelete, "/memory/through/k", ""), status)
		}
		s.flusher.become(func(journal.NewWrite) (bool, error) { return false, fmt.Errorf("no: %w", journal.ErrFull) })
		wantDetail(t, s.do(http.MethodPut, "/memory/through/k", putBody("new")), http.StatusInsufficientStorage, "nothing of it is kept")
		s.flusher.become(func(journal.NewWrite) (bool, error) { return false, refusedByUpstream{} })
		wantDetail(t, s.do(http.MethodPut, "/memory/through/k", putBody("new")), http.StatusUnprocessableEntity, "no, thank you")
		wantValue(t, s.get("/memory/through/k"), "old")
		if st := s.journal.Stats(); st.Pending+st.DeadLetters != 0 {
			t.Errorf("%d are pending, and %d are dead", st.Pending, st.DeadLetters)
		}
	})
}

type refusedByUpstream struct{}

func (refusedByUpstream) Error() string             { return "refused" }
func (refusedByUpstream) RetryAfter() time.Duration { return 0 }
func (refusedByUpstream) Answer() (int, []byte) {
	return http.StatusUnprocessableEntity, []byte(`{"detail":"no, thank you"}`)
}

func TestADeleteThroughOfWhatIsNotThere(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		k := id("through", "k")
		wantStatus(t, s.do(http.MethodDelete, "/memory/through/k", ""), http.StatusNotFound)
		wantStatus(t, s.get("/memory/through/k"), http.StatusNotFound)
		wantAsked(t, s) // upstream's answer to the DELETE is known
		s.put(k, "v")
		s.upstream.remove(k) // as another host
		wantDetail(t, s.do(http.MethodDelete, "/memory/through/k", ""), http.StatusNotFound, "Key not found: through/k")
		wantStatus(t, s.get("/memory/through/k"), http.StatusNotFound)
	})
}

// Conditions are checked when the write is sent. A refused one costs upstream nothing.
func TestConditionsOfAWriteThrough(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("through", "k"), "foreign")
		put := func(headers ...string) int {
			return s.do(http.MethodPut, "/memory/through/k", putBody("v"), headers...).Code
		}
		if got := put("If-None-Match", "*"); got != http.StatusPreconditionFailed {
			t.Errorf("of an entry that only upstream has: %d", got)
		}
		tag := s.get("/memory/through/k").Header().Get("Etag")
		if got := put("If-Match", tag); got != http.StatusOK {
			t.Errorf("with the tag: %d", got)
		}
		if got := put("If-Match", tag); got != http.StatusPreconditionFailed {
			t.Errorf("with the old tag: %d", got)
		}
		s.flusher.become(func(w journal.NewWrite) (bool, error) {
			_, err := s.journal.Append(memory.NewPut(w.ID, "faster")) // a retried dead letter, say
			return true, err
		})
		if got := put("If-Match", s.get("/memory/through/k").Header().Get("Etag")); got != http.StatusPreconditionFailed {
			t.Errorf("with a newer write: %d", got)
		}
		wantValue(t, s.get("/memory/through/k"), "faster")
		if got := s.do(http.MethodDelete, "/memory/through/none", "", "If-Match", "*").Code; got != http.StatusNotFound {
			t.Errorf("a delete with a condition: %d", got)
		}
	})
}

// Contract 7: upstream's answer may show a write in flight, which vanishes if the write fails. Readers wait
// until it is over.
func TestReadersWaitForAWriteThrough(t *testing.T) {
	for name, target := range map[string]string{"GET": "/memory/through/k", "LIST": "/memory/through"} {
		t.Run(name, func(t *testing.T) {
			inThrough(t, func(t *testing.T, s *sidecar) {
				k := id("through", "k")
				s.put(k, "old")
				goOn := make(chan struct{})
				s.flusher.become(func(w journal.NewWrite) (bool, error) {
					s.upstream.set(w.ID, w.Value)
					<-goOn
					return true, nil
				})
				writer := s.begin(http.MethodPut, "/memory/through/k", putBody("newer"))
				synctest.Wait()
				wantValue(t, s.get("/memory/through/k"), "old")
				reader := s.begin(http.MethodGet, target, "", "Cache-Control", "no-cache")
				synctest.Wait()
				select {
				case w := <-reader:
					t.Errorf("a reader was answered while the write was on its way: %s", w.Body)
				default:
				}
				wantValue(t, s.get("/memory/through/k"), "old")
				close(goOn)
				wantStatus(t, <-writer, http.StatusOK)
				w := <-reader
				if !strings.Contains(w.Body.String(), `"newer"`) && !strings.Contains(w.Body.String(), `"bytes":5`) {
					t.Errorf("the reader got %s", w.Body)
				}
			})
		})
	}
}

// A write in flight goes on when its caller leaves, and a shutdown waits for it.
func TestAWriteThroughAndTheEndOfItsCaller(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		goOn := make(chan struct{})
		s.flusher.become(func(w journal.NewWrite) (bool, error) { <-goOn; return true, nil })
		writer := s.begin(http.MethodPut, "/memory/through/k", putBody("v"))
		synctest.Wait()
		closed := make(chan struct{})
		go func() { s.server.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed, and a write is under way")
		default:
		}
		close(goOn)
		wantStatus(t, <-writer, http.StatusOK)
		<-closed
	})
}

// A PUT on the fast path writes through too.
func TestASimplePutThrough(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		r := &fastpath.Request{Method: http.MethodPut, Path: "/memory/through/k", JSON: true, Body: []byte(putBody("v")), Date: "Date: now"}
		answer, later := s.server.AnswerSimple(r, nil)
		if answer != nil || later == nil {
			t.Fatalf("it was answered at once: %s", answer)
		}
		r.Body = nil // it belongs to the connection
		w := httptest.NewRecorder()
		later(t.Context(), w)
		wantStatus(t, w, http.StatusOK)
		wantHeader(t, w, "Botwired-Write", "settled; seq=1")
		if value, _ := s.upstream.holds(id("through", "k")); value != "v" {
			t.Errorf("upstream holds %q", value)
		}
		s.flusher.become(func(journal.NewWrite) (bool, error) { return false, context.DeadlineExceeded })
		_, later = s.server.AnswerSimple(&fastpath.Request{Method: http.MethodPut, Path: "/memory/through/k", JSON: true, Body: []byte(`{`)}, nil)
		w = httptest.NewRecorder()
		later(t.Context(), w)
		wantStatus(t, w, http.StatusUnprocessableEntity)
	})
}

// An absence is not remembered while a write may still be carried out.
func TestNoAbsenceIsRememberedInDoubt(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		k := id("through", "k")
		s.flusher.become(func(journal.NewWrite) (bool, error) {
			s.journal.WriteThrough.Doubt(k)
			return false, unwritten{504}
		})
		wantStatus(t, s.do(http.MethodPut, "/memory/through/k", putBody("v")), 504)
		wantStatus(t, s.get("/memory/through/k"), http.StatusNotFound)
		s.upstream.set(k, "v") // it lands late
		wantValue(t, s.get("/memory/through/k"), "v")
		s.upstream.remove(k)
		wantStatus(t, s.get("/memory/through/k"), http.StatusNotFound)
		if err := s.journal.WriteThrough.EndDoubt(k); err != nil {
			t.Fatal(err)
		}
		s.upstream.set(k, "v")
		wantValue(t, s.get("/memory/through/k"), "v")
		s.upstream.set(k, "newer")
		wantValue(t, s.get("/memory/through/k"), "v") // fresh again
	})
}

// contract 14: a write through that is decided again, as upstream has shown another state, does not wait for itself
// while it asks upstream.
func TestAWriteThroughIsDecidedAgain(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		k := id("through", "k")
		s.policy, s.flusher.twice = cache.Policy{}, true
		s.upstream.set(k, "another host's")
		began := time.Now()
		s.put(k, "v", "If-Match", "*")
		if waited := time.Since(began); waited > 0 {
			t.Errorf("it has waited for %v", waited)
		}
	})
}
