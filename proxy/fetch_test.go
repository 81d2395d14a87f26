package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
)

func TestAllWhoWaitShareOneRequestUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "k"), "v")
		for _, w := range s.together(50, http.MethodGet, "/memory/n/k") {
			wantValue(t, w, "v")
		}
		wantAsked(t, s, question{ID: id("n", "k"), Waits: true})
	})
}

// Readers of one namespace's listings share a request, even with different limits.
func TestReadersOfOneListingKeepTheirLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		for _, key := range []string{"a", "b", "c"} {
			s.upstream.set(id("n", key), key)
		}
		held := s.upstream.hold()
		one := s.begin(http.MethodGet, "/memory/n?limit=1", "")
		synctest.Wait()
		all := s.begin(http.MethodGet, "/memory/n", "")
		two := s.begin(http.MethodGet, "/memory/n?limit=2", "")
		synctest.Wait()
		close((<-held).answer)
		wantKeys(t, <-one, "c")
		wantKeys(t, <-all, "c", "b", "a")
		wantKeys(t, <-two, "c", "b")
		wantAsked(t, s, question{ID: id("n", ""), Waits: true})
	})
}

// A caller that has closed its sending side, and looks as if it had gone, is answered too.
func TestARequestUpstreamOutlivesTheCallerWhoBeganIt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "k"), "v")
		held := s.upstream.hold()
		r, hangUp := hangingUp(t, "/memory/n/k")
		gone := make(chan *httptest.ResponseRecorder, 1)
		go func() {
			w := httptest.NewRecorder()
			s.serve(s.server, w, r)
			gone <- w
		}()
		q := <-held
		stays := s.begin(http.MethodGet, "/memory/n/k", "")
		synctest.Wait()
		hangUp()
		synctest.Wait()
		close(q.answer)
		wantValue(t, <-stays, "v")
		wantValue(t, <-gone, "v")
		wantAsked(t, s, question{ID: id("n", "k"), Waits: true})
	})
}

func TestARequestUpstreamGoesOnWhenAllCallersAreGone(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "k"), "v")
		held := s.upstream.hold()
		r, hangUp := hangingUp(t, "/memory/n/k")
		go s.serve(s.server, httptest.NewRecorder(), r)
		q := <-held
		hangUp()
		synctest.Wait()
		close(q.answer)
		synctest.Wait()
		s.upstream.release()
		s.upstream.setDown(true)
		wantValue(t, s.get("/memory/n/k"), "v")
	})
}

// Contract 8, with a write that is still pending when the answer comes.
func TestAnAnswerOvertakenByAWriteIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "k"), "old")
		reader, q := s.asking("/memory/n/k")
		s.put(id("n", "k"), "mine")
		close(q.answer)
		wantValue(t, <-reader, "mine")
		wantValue(t, s.get("/memory/n/k"), "mine")
		wantPendingKept(t, s, id("n", "k"), "mine")
	})
}

// The write has settled when the answer comes: no pending write hides the stale fill.
func TestAnAnswerOvertakenByASettledWriteIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "k"), "old")
		reader, q := s.asking("/memory/n/k")
		s.put(id("n", "k"), "mine")
		s.settle(id("n", "k"))
		close(q.answer)
		wantValue(t, <-reader, "mine")
		wantValue(t, s.get("/memory/n/k"), "mine")
		wantAsked(t, s, question{ID: id("n", "k"), Waits: true})
	})
}

func TestAnAbsenceOvertakenByASettledWriteIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		reader, q := s.asking("/memory/n/k")
		s.put(id("n", "k"), "mine")
		s.settle(id("n", "k"))
		close(q.answer)
		wantValue(t, <-reader, "mine")
	})
}

func TestAnAnswerOvertakenByASettledDeleteIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "old")
		held := s.upstream.hold()
		reader := s.begin(http.MethodGet, "/memory/n/k", "", "Cache-Control", "no-cache")
		q := <-held
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
		s.settle(id("n", "k"))
		close(q.answer)
		q = <-held // the entry is unknown now: upstream is asked again
		close(q.answer)
		wantStatus(t, <-reader, http.StatusNotFound)
		s.upstream.release()
		wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
	})
}

// A reader of a busy entry, with a policy that always asks upstream, does not go round in circles: a state
// settled since the request came is as good as asking.
func TestAReaderOfABusyEntryIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.policy.FreshFor, s.policy.StaleWhileRevalidate, s.policy.StaleIfError = 0, 0, 0
		s.learn(id("n", "k"), "v0")
		time.Sleep(time.Minute)
		for _, directive := range []string{"", "no-cache", "max-age=0"} {
			reader, q := s.asking("/memory/n/k", "Cache-Control", directive)
			time.Sleep(50 * time.Millisecond)
			s.put(id("n", "k"), "mine"+directive)
			s.settle(id("n", "k"))
			time.Sleep(50 * time.Millisecond)
			close(q.answer)
			wantValue(t, <-reader, "mine"+directive)
			s.upstream.release()
			time.Sleep(time.Minute)
		}
	})
}

// Keys share generations. A busy key must not starve another one, by dropping every answer from upstream.
func TestABusyNeighbourDoesNotHoldUpARead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "quiet"), "v")
		reader, q := s.asking("/memory/n/quiet")
		// Enough to advance every generation.
		for i := range 1 << 20 {
			s.cache.Changed("busy", strconv.Itoa(i))
		}
		close(q.answer)
		wantValue(t, <-reader, "v")
		wantAsked(t, s, question{ID: id("n", "quiet"), Waits: true})
	})
}

func hangingUp(t *testing.T, target string) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil), cancel
}

func TestADeleteDuringAListingsRequestHidesTheKey(t *testing.T) {
	for name, settles := range map[string]bool{"pending": false, "settled": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *sidecar) {
				s.learn(id("n", "goes"), "v")
				s.upstream.set(id("n", "stays"), "v")
				list, q := s.asking("/memory/n")
				wantStatus(t, s.do(http.MethodDelete, "/memory/n/goes", ""), http.StatusOK)
				s.put(id("n", "comes"), "v")
				if settles {
					s.settle(id("n", "goes"))
					s.settle(id("n", "comes"))
				}
				close(q.answer)
				wantKeys(t, <-list, "comes", "stays")
				s.upstream.release()
				wantKeys(t, s.get("/memory/n"), "comes", "stays")
			})
		})
	}
}

func TestCloseEndsRequestsUpstreamAndWaitsForCallers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		held := s.upstream.hold()
		reader := s.begin(http.MethodGet, "/memory/n/k", "")
		list := s.begin(http.MethodGet, "/memory/n", "")
		<-held
		<-held
		// This one waits for its write to settle, not for a flight.
		proceed := make(chan struct{})
		s.flusher.await = func(context.Context, journal.ID, uint64) bool { <-proceed; return false }
		writer := s.begin(http.MethodPut, "/memory/n/w", putBody("v"), "Prefer", "wait=60")
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			s.server.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close did not wait for a caller")
		default:
		}
		close(proceed)
		<-closed
		wantStatus(t, <-writer, http.StatusOK)
		for _, w := range []<-chan *httptest.ResponseRecorder{reader, list} {
			wantStatus(t, <-w, http.StatusServiceUnavailable)
		}
		w := s.do(http.MethodPut, "/memory/n/k", putBody("v"))
		wantStatus(t, w, http.StatusServiceUnavailable)
		wantHeader(t, w, "Retry-After", "1")
	})
}

func wantPendingKept(t *testing.T, s *sidecar, id journal.ID, value string) {
	t.Helper()
	w, ok, err := s.journal.Newest(id)
	if err != nil || !ok || w.Value != value {
		t.Errorf("pending write of %s: %q, %t, %v; want %q", id, w.Value, ok, err, value)
	}
}
