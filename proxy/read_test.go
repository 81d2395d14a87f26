package proxy_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

var ignoreAnswer = cmpopts.IgnoreUnexported(question{})

func wantAsked(t *testing.T, s *sidecar, want ...question) {
	t.Helper()
	if diff := cmp.Diff(want, s.upstream.take(), ignoreAnswer, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("upstream was asked (-want +got):\n%s", diff)
	}
}

func TestAReadIsAnsweredFromThePendingSetThenFromTheSettledCopy(t *testing.T) {
	s := newSidecar(t)
	s.put(id("n", "k"), "mine")
	w := s.get("/memory/n/k")
	wantValue(t, w, "mine")
	wantHeader(t, w, "Cache-Status", "botwired; hit; detail=pending")
	wantHeader(t, w, "Age", "0")
	wantHeader(t, w, "Content-Type", "application/json")
	s.settle(id("n", "k"))
	w = s.get("/memory/n/k")
	wantValue(t, w, "mine")
	wantHeader(t, w, "Cache-Status", "botwired; hit")
	wantHeader(t, w, "Age", "0")
	wantAsked(t, s)
}

func TestAMissAsksUpstreamOnceAndIsRemembered(t *testing.T) {
	s := newSidecar(t)
	s.upstream.set(id("n", "k"), "theirs")
	w := s.get("/memory/n/k")
	wantValue(t, w, "theirs")
	wantHeader(t, w, "Cache-Status", "botwired; fwd=miss")
	wantHeader(t, w, "Age", "") // upstream was asked for it
	wantValue(t, s.get("/memory/n/k"), "theirs")
	wantAsked(t, s, question{ID: id("n", "k"), Waits: true})
	if w.Header().Get("Content-Length") == "" {
		t.Error("no Content-Length")
	}
}

func TestATombstoneHidesWhatUpstreamStillHolds(t *testing.T) {
	s := newSidecar(t)
	s.learn(id("n", "k"), "theirs")
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
	s.upstream.take()
	w := s.get("/memory/n/k", "Cache-Control", "no-cache")
	wantDetail(t, w, http.StatusNotFound, "Key not found: n/k")
	wantHeader(t, w, "Cache-Status", "botwired; hit; detail=pending")
	wantAsked(t, s)
}

// Contract 9: an unknown entry is not denied.
func TestNothingIsAnsweredOutOfIgnorance(t *testing.T) {
	s := newSidecar(t)
	s.upstream.setDown(true)
	for _, target := range []string{"/memory/n/k", "/memory/n"} {
		w := s.get(target)
		wantDetail(t, w, http.StatusServiceUnavailable, "not known here", "connection refused")
		wantHeader(t, w, "Retry-After", "2") // 1.5 s, rounded up
	}
	wantAsked(t, s, question{ID: id("n", "k"), Waits: true}, question{ID: id("n", ""), Waits: true})
	// Own writes do not make a listing known.
	s.put(id("n", "k"), "mine")
	wantStatus(t, s.get("/memory/n"), http.StatusServiceUnavailable)
	wantValue(t, s.get("/memory/n/k"), "mine")
}

func TestDirectivesOfACaller(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "old")
		s.upstream.set(id("n", "k"), "new")
		time.Sleep(5 * time.Second)
		for _, step := range []struct{ directive, value, status string }{
			{"", "old", "botwired; hit"},
			{"max-age=5", "old", "botwired; hit"},
			{`only-if-cached, MAX-AGE="60"`, "old", "botwired; hit"},
			{"max-age=nonsense, no-store", "old", "botwired; hit"},
			{"max-age=4", "new", "botwired; fwd=request"},
		} {
			w := s.get("/memory/n/k", "Cache-Control", step.directive)
			wantValue(t, w, step.value)
			wantHeader(t, w, "Cache-Status", step.status)
		}
		s.upstream.set(id("n", "k"), "newer")
		wantValue(t, s.get("/memory/n/k", "Cache-Control", "no-cache"), "newer")
		wantDetail(t, s.get("/memory/n/unknown", "Cache-Control", "only-if-cached"), http.StatusGatewayTimeout)
		wantDetail(t, s.get("/memory/n/k", "Cache-Control", "no-cache, only-if-cached"), http.StatusGatewayTimeout)
		wantDetail(t, s.get("/memory/n", "Cache-Control", "only-if-cached"), http.StatusGatewayTimeout)
		s.upstream.setDown(true)
		wantStatus(t, s.get("/memory/n/k", "Cache-Control", "no-cache"), http.StatusServiceUnavailable)
	})
}

// If a directive excludes the local copy, the caller learns of that copy in an outage: its entry or listing
// is not unknown.
func TestACopyThatADirectiveExcludes(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "old")
		wantStatus(t, s.get("/memory/n"), http.StatusOK)
		time.Sleep(65 * time.Second)
		s.upstream.setDown(true)
		for _, target := range []string{"/memory/n/k", "/memory/n"} {
			for _, directive := range []string{"no-cache", "max-age=4"} {
				w := s.get(target, "Cache-Control", directive)
				wantDetail(t, w, http.StatusServiceUnavailable, "known here, but the request's Cache-Control excludes that answer, and ", "connection refused")
				if strings.Contains(w.Body.String(), "not known here") {
					t.Errorf("%s: %s", directive, w.Body)
				}
				wantHeader(t, w, "Retry-After", "2")
			}
			wantStatus(t, s.get(target), http.StatusOK)
		}
		wantDetail(t, s.get("/memory/other/unknown", "Cache-Control", "no-cache"), http.StatusServiceUnavailable, "not known here, and ")
		wantDetail(t, s.get("/memory/n/absent", "Cache-Control", "no-cache"), http.StatusServiceUnavailable,
			"known here, but the request's Cache-Control excludes that answer, and ")
	})
}

func TestFreshnessStaleWhileRevalidateAndStaleIfError(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "v1")
		s.upstream.set(id("n", "k"), "v2")
		s.upstream.take()
		time.Sleep(10*time.Second - time.Millisecond)
		w := s.get("/memory/n/k")
		wantHeader(t, w, "Cache-Status", "botwired; hit")
		wantHeader(t, w, "Age", "9")
		wantAsked(t, s)

		time.Sleep(time.Millisecond)
		w = s.get("/memory/n/k")
		wantValue(t, w, "v1")
		wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-while-revalidate")
		synctest.Wait()
		wantAsked(t, s, question{ID: id("n", "k")})
		wantValue(t, s.get("/memory/n/k"), "v2") // fetched meanwhile
		wantAsked(t, s)

		s.upstream.set(id("n", "k"), "v3")
		time.Sleep(70 * time.Second)
		w = s.get("/memory/n/k")
		wantValue(t, w, "v3")
		wantHeader(t, w, "Cache-Status", "botwired; fwd=stale")

		s.upstream.setDown(true)
		time.Sleep(10 * time.Hour)
		w = s.get("/memory/n/k")
		wantValue(t, w, "v3")
		wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-if-error")
		wantHeader(t, w, "Age", "36000")
		s.policy.StaleIfError = time.Hour
		wantStatus(t, s.get("/memory/n/k"), http.StatusServiceUnavailable)
	})
}

func TestFreshForZeroAsksUpstreamEveryTime(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.policy.FreshFor, s.policy.StaleWhileRevalidate = 0, 0
		s.learn(id("n", "k"), "v1")
		s.upstream.set(id("n", "k"), "v2")
		wantValue(t, s.get("/memory/n/k"), "v2")
		s.upstream.setDown(true)
		wantValue(t, s.get("/memory/n/k"), "v2")
	})
}

// After cache.absent_for, upstream is asked for an absence again. While upstream cannot be asked, the absence
// answers like any copy, for cache.stale_if_error.
func TestAnAbsenceAnswersForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
		s.upstream.take()
		synctest.Wait() // the cache stores it
		time.Sleep(2*time.Second - time.Millisecond)
		w := s.get("/memory/n/k")
		wantStatus(t, w, http.StatusNotFound)
		wantHeader(t, w, "Cache-Status", "botwired; hit")
		wantAsked(t, s)
		time.Sleep(time.Millisecond)
		s.upstream.setDown(true)
		w = s.get("/memory/n/k")
		wantStatus(t, w, http.StatusNotFound)
		wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-if-error")
		wantHeader(t, w, "Age", "2")
		s.policy.StaleIfError = time.Minute
		time.Sleep(time.Minute)
		wantStatus(t, s.get("/memory/n/k"), http.StatusServiceUnavailable)
		s.upstream.setDown(false)
		s.upstream.set(id("n", "k"), "there")
		wantValue(t, s.get("/memory/n/k"), "there")
	})
}

// An entry in a listing exists: an earlier absence, however young, does not answer.
func TestAnAbsenceEndsWithAListingThatShowsTheEntry(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		wantKeys(t, s.get("/memory/n"))
		wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
		synctest.Wait() // the cache stores it
		s.upstream.set(id("n", "k"), "theirs")
		wantKeys(t, s.get("/memory/n", "Cache-Control", "no-cache"), "k")
		wantValue(t, s.get("/memory/n/k"), "theirs")
	})
}

// contract 7: once a LIST has shown another host's write, no GET answers with the copy of the state before as if it were
// fresh, before a restart and after. It is the answer only if upstream cannot be asked.
func TestACopyIsOldOnceAListShowsANewerWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "before")
		s.learn(id("first", "k"), "before") // a namespace that nobody has listed yet
		wantKeys(t, s.get("/memory/n"), "k")
		time.Sleep(time.Second)
		for _, namespace := range []string{"n", "first"} {
			wantValue(t, s.get("/memory/"+namespace+"/k"), "before")
			synctest.Wait() // the cache stores it
			s.upstream.set(id(namespace, "k"), "theirs")
			wantKeys(t, s.get("/memory/"+namespace, "Cache-Control", "no-cache"), "k")
		}
		s.upstream.setDown(true)
		w := s.get("/memory/n/k")
		wantValue(t, w, "before")
		wantCacheStatus(t, w, "hit; detail=stale-if-error", "1")
		s.upstream.setDown(false)
		for _, namespace := range []string{"n", "first"} {
			wantValue(t, s.get("/memory/"+namespace+"/k"), "theirs")
			wantKeys(t, s.get("/memory/"+namespace, "Cache-Control", "no-cache"), "k")
			s.upstream.take()
			wantValue(t, s.get("/memory/"+namespace+"/k"), "theirs")
			if asked := s.upstream.take(); len(asked) > 0 {
				t.Errorf("upstream was asked for a copy of what it lists: %v", asked)
			}
		}
	})
}

// contract 7: an answer that was on its way when a LIST showed a newer write does not count.
func TestAnAnswerThatAListHasOvertaken(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "before")
		for _, last := range []string{"theirs", "their next"} {
			time.Sleep(time.Second)
			s.upstream.set(id("n", "k"), "on its way")
			reader, q := s.asking("/memory/n/k", "Cache-Control", "no-cache")
			s.upstream.release()
			time.Sleep(time.Second)
			s.upstream.set(id("n", "k"), last)
			wantKeys(t, s.get("/memory/n", "Cache-Control", "no-cache"), "k")
			close(q.answer)
			wantValue(t, <-reader, last)
			wantValue(t, s.get("/memory/n/k"), last)
		}
	})
}

// contract 7: nor does a copy count that was confirmed while the answer was on its way, and that a LIST has overtaken since.
func TestACopyThatAListHasOvertakenIsNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "before")
		time.Sleep(2 * time.Minute)
		questions := s.upstream.hold()
		early := s.begin(http.MethodGet, "/memory/n/k", "")
		onItsWay := <-questions
		confirming := s.begin(http.MethodGet, "/memory/n/k", "", "Cache-Control", "no-cache")
		close((<-questions).answer)
		wantValue(t, <-confirming, "before")
		s.upstream.release()
		s.upstream.set(id("n", "k"), "theirs")
		wantKeys(t, s.get("/memory/n", "Cache-Control", "no-cache"), "k")
		late := s.begin(http.MethodGet, "/memory/n/k", "")
		synctest.Wait() // it waits for the answer that is on its way
		close(onItsWay.answer)
		wantValue(t, <-late, "theirs")
		wantStatus(t, <-early, http.StatusOK)
	})
}

// On a nearly full disk upstream's answer is not kept. It still ends a known absence (contract 7).
func TestAnAbsenceEndsWithAnAnswerThatIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(o *journal.Options, _ *proxy.Options) { o.FS, o.DiskReserve = fullDisk{o.FS}, 1<<20 })
		wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
		synctest.Wait() // the cache stores it
		wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
		if asked := s.upstream.take(); len(asked) != 1 {
			t.Errorf("the absence is not remembered: upstream was asked %d times", len(asked))
		}
		s.upstream.set(id("n", "k"), "there")
		wantValue(t, s.get("/memory/n/k", "Cache-Control", "no-cache"), "there")
		wantValue(t, s.get("/memory/n/k"), "there")
	})
}

// fillingDisk has no free space once it is full.
type fillingDisk struct {
	vfs.FS
	full atomic.Bool
}

func (d *fillingDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if d.full.Load() {
		return vfs.DiskUsage{}, nil
	}
	return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
}

// fullDisk has no free space.
type fullDisk struct{ vfs.FS }

func (fullDisk) GetDiskUsage(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{}, nil }

// Upstream has just confirmed the delete: it need not be asked whether it holds the entry.
func TestASettledDeleteLeavesAKnownAbsence(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.flusher.settled = s.server.Settled
		s.learn(id("n", "k"), "v")
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
		s.upstream.take()
		s.upstream.setDown(true)
		s.settle(id("n", "k"))
		wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusNotFound)
		time.Sleep(2 * time.Second)
		wantAsked(t, s)
		wantHeader(t, s.get("/memory/n/k"), "Cache-Status", "botwired; hit; detail=stale-if-error")
	})
}

// The absence after a delete does not hide a later write.
func TestASettledDeleteHidesNoNewerWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "v")
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
		s.flusher.settled = func(w journal.Write) {
			s.put(id("n", "k"), "new")
			s.server.Settled(w)
		}
		s.settle(id("n", "k"))
		synctest.Wait()
		wantValue(t, s.get("/memory/n/k"), "new")
	})
}

// A reader with an old answer waits a second for upstream, or not at all if others have waited already.
func TestAReaderFallsBackWhenUpstreamTakesTooLong(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "old")
		time.Sleep(time.Hour)
		s.upstream.set(id("n", "k"), "new")
		held := s.upstream.hold()
		for _, wait := range []time.Duration{time.Second, 0} {
			began := time.Now()
			got := s.begin(http.MethodGet, "/memory/n/k", "")
			if wait != 0 {
				defer func(q *question) { close(q.answer); synctest.Wait() }(<-held)
			}
			w := <-got
			wantValue(t, w, "old")
			wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-if-error")
			if took := time.Since(began); took != wait {
				t.Errorf("the answer took %s, want %s", took, wait)
			}
		}
	})
}

func TestBadNamesAreRefusedBeforeAnythingIsAsked(t *testing.T) {
	s := newSidecar(t)
	for target, status := range map[string]int{
		"/memory/n%20s/k": http.StatusBadRequest, "/memory/n/k%20": http.StatusBadRequest, "/memory/n%0A": http.StatusBadRequest,
		"/memory/n/a%2Fb": http.StatusNotFound, "/memory/": http.StatusNotFound, "/memory": http.StatusNotFound,
		"/memory/n/k/": http.StatusTemporaryRedirect, "/memory/n/": http.StatusTemporaryRedirect,
	} {
		if w := s.get(target); w.Code != status {
			t.Errorf("%s: %d, want %d", target, w.Code, status)
		}
	}
	wantAsked(t, s)
	wantValueAt := id("n", "..")
	s.put(wantValueAt, "dots")
	wantValue(t, s.get("/memory/n/.."), "dots")
}

func TestMethods(t *testing.T) {
	s := newSidecar(t)
	s.put(id("n", "k"), "v")
	for _, method := range []string{"HEAD", "OPTIONS", "TRACE", "POST", "PATCH", "CONNECT", "BREW"} {
		for _, target := range []string{"/memory/n/k", "/memory/n"} {
			w := s.do(method, target, "")
			wantStatus(t, w, http.StatusMethodNotAllowed)
			wantHeader(t, w, "Allow", "GET")
		}
	}
	for _, method := range []string{"PUT", "DELETE"} {
		wantStatus(t, s.do(method, "/memory/n", ""), http.StatusMethodNotAllowed)
	}
}

// Forwarded requests carry the daemon's own headers upstream, tokens included: a TRACE would return them.
func TestWhatIsPassedOn(t *testing.T) {
	s := newSidecar(t)
	wantStatus(t, s.get("/health"), http.StatusTeapot)
	wantStatus(t, s.do(http.MethodPost, "/channels/x", "{}"), http.StatusTeapot)
	wantStatus(t, s.do(http.MethodOptions, "/health", ""), http.StatusTeapot)
	wantStatus(t, s.do(http.MethodTrace, "/health", ""), http.StatusMethodNotAllowed)
	wantStatus(t, s.do(http.MethodOptions, "*", ""), http.StatusNotFound)
	wantStatus(t, s.get("/_botwired"), http.StatusFound) // to the dashboard
	wantStatus(t, s.get("//memory/n/k"), http.StatusNotFound)
	if diff := cmp.Diff([]string{"GET /health", "POST /channels/x", "OPTIONS /health"}, s.passed); diff != "" {
		t.Errorf("passed on (-want +got):\n%s", diff)
	}
}

// An old copy does not cover up a fault of the daemon.
func TestAnErrorOfTheDaemonIsNotAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "old")
		time.Sleep(time.Hour)
		s.upstream.panics = "secret-value"
		wantDetail(t, s.get("/memory/n/k"), http.StatusInternalServerError, "see botwired's log")
		wantStatus(t, s.get("/memory/n/other"), http.StatusInternalServerError)
		s.upstream.panics = nil
		wantValue(t, s.get("/memory/n/k"), "old")
		wantNotLogged(t, s, "secret-value")
		wantLogged(t, s, "msg=panic", "fetch.go")
	})
}

// net/http would log the value of a handler's panic, and at a level that nobody reads.
func TestAPanicOfAHandlerIsLoggedWithoutAValue(t *testing.T) {
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
		o.Policy = func(string) cache.Policy { panic("secret-value") }
	})
	s.put(id("n", "k"), "v")
	wantStatus(t, s.get("/memory/n/k"), http.StatusInternalServerError)
	wantLogged(t, s, "msg=panic", "level=ERROR", "read.go")
	wantNotLogged(t, s, "secret-value")
}

// An answer that breaks off must not look complete: the connection is cut.
func TestAnAbortIsPassedOn(t *testing.T) {
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
		o.Forward = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	})
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("recovered %v", err)
		}
	}()
	s.get("/channels")
}
