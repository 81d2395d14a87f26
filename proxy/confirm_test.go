package proxy_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/proxy/memory"
)

// writesThrough makes namespaces that begin with "through" write through.
func writesThrough(_ *journal.Options, o *proxy.Options) {
	o.WriteThrough = func(namespace string) bool { return strings.HasPrefix(namespace, "through") }
	o.ConfirmWithin = 10 * time.Second
}

func inThrough(t *testing.T, test func(*testing.T, *sidecar)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newSidecar(t, writesThrough)) })
}

// become makes upstream answer for the writes that wait for it.
func (f *fakeFlusher) become(confirm func(w journal.Write) (settled bool, err error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.confirm = confirm
}

// unconfirmed is the flusher's error for a write that upstream has not confirmed.
type unconfirmed struct{ wait time.Duration }

func (unconfirmed) Error() string               { return "upstream has not confirmed it" }
func (u unconfirmed) RetryAfter() time.Duration { return u.wait }

type refusedByUpstream struct{}

func (refusedByUpstream) Error() string             { return "refused" }
func (refusedByUpstream) RetryAfter() time.Duration { return 0 }
func (refusedByUpstream) Answer() (int, []byte) {
	return http.StatusUnprocessableEntity, []byte(`{"detail":"no, thank you"}`)
}

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
		wantStatus(t, s.do(http.MethodDelete, "/memory/through/k", ""), http.StatusNotFound)
	})
}

// contract 14: a write through that upstream does not confirm is durable here, and its caller is told so, with its
// number. Callers read it, and a repetition of its request gets what has become of it.
func TestAWriteThroughThatIsNotConfirmed(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		k := id("through", "k")
		s.put(k, "old")
		s.flusher.become(func(journal.Write) (bool, error) { return false, unconfirmed{3 * time.Second} })
		put := func() *httptest.ResponseRecorder {
			return s.do(http.MethodPut, "/memory/through/k", putBody("new"), "Idempotency-Key", "a")
		}
		for range 2 {
			w := put()
			wantDetail(t, w, http.StatusGatewayTimeout, "durable here and still pending")
			wantHeader(t, w, "Botwired-Write", "pending; seq=2")
			wantHeader(t, w, "Retry-After", "3")
		}
		wantValue(t, s.get("/memory/through/k"), "new")
		s.flusher.become(nil)
		wantHeader(t, put(), "Botwired-Write", "settled; seq=2")
		wantHeader(t, put(), "Botwired-Write", "settled; seq=2")
		if n := s.journal.Stats().LastSeq; n != 2 {
			t.Errorf("%d writes were made, want 2", n)
		}
	})
}

// contract 14: the repetition of a write that has ended gets what has become of it, also while a newer write to the
// entry is pending.
func TestARepetitionWhileANewerWriteIsPending(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		put := func(value string) *httptest.ResponseRecorder {
			return s.do(http.MethodPut, "/memory/through/k", putBody(value), "Idempotency-Key", value)
		}
		put("settled")
		s.flusher.become(func(w journal.Write) (bool, error) {
			if err := s.journal.DeadLetter(w, journal.Failure{Status: http.StatusUnprocessableEntity, Reason: "no, thank you"}); err != nil {
				return false, err
			}
			return false, refusedByUpstream{}
		})
		put("refused")
		s.flusher.become(func(w journal.Write) (bool, error) {
			theirs := journal.Observation{Value: "theirs", CreatedAt: w.WrittenAt, UpdatedAt: w.WrittenAt + 1}
			return false, s.journal.Fence.Lose(w, theirs, "another host has written later")
		})
		put("beaten")
		s.flusher.become(func(journal.Write) (bool, error) { return false, unconfirmed{} })
		put("replaced")
		wantHeader(t, put("newer"), "Botwired-Write", "pending; seq=6") // the loser's dead letter has a number, too
		for _, want := range []struct {
			value, state string
			status       int
		}{
			{"settled", "settled; seq=1", http.StatusOK},
			{"refused", "dead; seq=2", http.StatusUnprocessableEntity},
			{"beaten", "superseded; seq=3", http.StatusConflict},
			{"replaced", "superseded; seq=5", http.StatusGatewayTimeout},
		} {
			w := put(want.value)
			wantStatus(t, w, want.status)
			wantHeader(t, w, "Botwired-Write", want.state)
			if want.value == "replaced" {
				wantDetail(t, w, want.status, "a newer write to the entry has taken its place, and is durable here")
			}
		}
	})
}

// A delete that upstream does not confirm is durable, too.
func TestADeleteThroughThatIsNotConfirmed(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		s.put(id("through", "k"), "v")
		s.flusher.become(func(journal.Write) (bool, error) { return false, unconfirmed{} })
		w := s.do(http.MethodDelete, "/memory/through/k", "")
		wantDetail(t, w, http.StatusGatewayTimeout, "durable here and still pending")
		wantHeader(t, w, "Botwired-Write", "pending; seq=2")
		wantStatus(t, s.get("/memory/through/k"), http.StatusNotFound)
	})
}

// contract 14: a write that upstream refuses for good is answered as upstream has, also when it is repeated, and is a
// dead letter.
func TestAWriteThroughThatIsRefused(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		k := id("through", "k")
		s.put(k, "old")
		s.flusher.become(func(w journal.Write) (bool, error) {
			if err := s.journal.DeadLetter(w, journal.Failure{Status: http.StatusUnprocessableEntity, Reason: "HTTP 422: no, thank you"}); err != nil {
				return false, err
			}
			return false, refusedByUpstream{}
		})
		put := func() *httptest.ResponseRecorder {
			return s.do(http.MethodPut, "/memory/through/k", putBody("new"), "Idempotency-Key", "a")
		}
		first := put()
		wantDetail(t, first, http.StatusUnprocessableEntity, "no, thank you")
		wantHeader(t, first, "Botwired-Write", "dead; seq=2")
		for range 2 { // also once a person has given up the dead letter
			again := put()
			if diff := gocmp.Diff(first.Result().Header, again.Result().Header); diff != "" || again.Code != first.Code || again.Body.String() != first.Body.String() {
				t.Errorf("the repetition is answered %d %s, want %d %s; header (-want +got):\n%s", again.Code, again.Body, first.Code, first.Body, diff)
			}
			if err := s.journal.Discard(2); err != nil && !errors.Is(err, journal.ErrNoDeadLetter) {
				t.Fatal(err)
			}
		}
		wantValue(t, s.get("/memory/through/k"), "old")
		if st := s.journal.Stats(); st.Pending != 0 || st.DeadLetters != 0 {
			t.Errorf("%d are pending, and %d are dead", st.Pending, st.DeadLetters)
		}
	})
}

// contract 17: a write through that another host's later state has beaten is not acknowledged.
func TestAWriteThroughThatIsBeaten(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		s.flusher.become(func(w journal.Write) (bool, error) {
			theirs := journal.Observation{Value: "theirs", CreatedAt: w.WrittenAt, UpdatedAt: w.WrittenAt + 1}
			return false, s.journal.Fence.Lose(w, theirs, "another host has written later")
		})
		for i, w := range []*httptest.ResponseRecorder{
			s.do(http.MethodPut, "/memory/through/k", putBody("mine")), s.do(http.MethodDelete, "/memory/through/k", ""),
		} {
			wantDetail(t, w, http.StatusConflict, "another host has written the entry later")
			wantHeader(t, w, "Botwired-Write", fmt.Sprintf("superseded; seq=%d", 2*i+1)) // what has won takes a number, too
		}
		wantValue(t, s.get("/memory/through/k"), "theirs")
		if st := s.journal.Stats(); st.Conflicts != 2 || st.DeadLetters != 0 {
			t.Errorf("%d are lost, and %d are dead letters", st.Conflicts, st.DeadLetters)
		}
		beaten := false
		s.flusher.become(func(w journal.Write) (bool, error) {
			if beaten {
				return s.flusher.settle(w.ID), nil
			}
			beaten = true
			theirs := journal.Observation{Value: "theirs again", CreatedAt: w.WrittenAt, UpdatedAt: w.WrittenAt + 2}
			return false, s.journal.Fence.Lose(w, theirs, "another host has written later")
		})
		wantStatus(t, s.add(id("through", "k"), "%20", "and mine"), http.StatusOK)
		wantValue(t, s.get("/memory/through/k"), "theirs again and mine")
	})
}

// contract 14: a write through that a newer one has replaced is answered with what has become of that.
func TestAWriteThroughThatIsReplaced(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		for status, end := range map[int]func(journal.Write) error{
			http.StatusOK: func(w journal.Write) error { return s.journal.Settle(w) },
			http.StatusConflict: func(w journal.Write) error {
				return s.journal.DeadLetter(w, journal.Failure{Status: http.StatusBadRequest, Reason: "no"})
			},
		} {
			s.flusher.become(func(w journal.Write) (bool, error) {
				newer, err := s.journal.Append(memory.NewPut(w.ID, "newer"))
				if err == nil {
					err = end(newer)
				}
				return false, err
			})
			w := s.do(http.MethodPut, "/memory/through/k", putBody("mine"), "Idempotency-Key", fmt.Sprint(status))
			again := s.do(http.MethodPut, "/memory/through/k", putBody("mine"), "Idempotency-Key", fmt.Sprint(status))
			if w.Code != status || again.Code != status {
				t.Errorf("%d %s, and again %d, want %d", w.Code, w.Body, again.Code, status)
			}
		}
		wantValue(t, s.get("/memory/through/k"), "newer")
	})
}

// Conditions of a write through are judged as those of any other write: before anything is made.
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
		if got := s.do(http.MethodDelete, "/memory/through/none", "", "If-Match", "*").Code; got != http.StatusNotFound {
			t.Errorf("a delete with a condition: %d", got)
		}
	})
}

// The write is durable when its caller leaves, and a shutdown ends the caller's wait.
func TestAWriteThroughAndTheEndOfItsCaller(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		goOn := make(chan struct{})
		s.flusher.become(func(journal.Write) (bool, error) { <-goOn; return false, unconfirmed{} })
		writer := s.begin(http.MethodPut, "/memory/through/k", putBody("v"))
		synctest.Wait()
		wantValue(t, s.get("/memory/through/k"), "v")
		close(goOn)
		wantStatus(t, <-writer, http.StatusGatewayTimeout)
	})
}

// A PUT on the fast path waits for upstream, too.
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
		_, later = s.server.AnswerSimple(&fastpath.Request{Method: http.MethodPut, Path: "/memory/through/k", JSON: true, Body: []byte(`{`)}, nil)
		w = httptest.NewRecorder()
		later(t.Context(), w)
		wantStatus(t, w, http.StatusUnprocessableEntity)
	})
}
