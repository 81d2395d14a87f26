package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/cache"
)

const hit = "botwired; hit"

// While the view has caught up, a copy does not get old, and its Age is at most the time since the view was
// current.
func TestACopyStaysFreshWhileTheViewIsSound(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.learn(id("n", "k"), "v")
		s.upstream.take()
		for range 10 {
			time.Sleep(time.Hour)
			w := s.get("/memory/n/k")
			wantValue(t, w, "v")
			wantHeader(t, w, "Cache-Status", hit)
			wantHeader(t, w, "Age", "0")
			wantValue(t, s.get("/memory/n/k", "Cache-Control", "max-age=5, min-fresh=60"), "v")
		}
		wantAsked(t, s)
		view.lag()
		time.Sleep(2 * time.Second)
		w := s.get("/memory/n/k")
		wantHeader(t, w, "Cache-Status", hit)
		wantHeader(t, w, "Age", "2")
		wantAsked(t, s)
		wantHeader(t, s.get("/memory/n/k", "Cache-Control", "no-cache"), "Cache-Status", "botwired; fwd=request")
		wantHeader(t, s.get("/memory/n/k", "Cache-Control", "max-age=1"), "Cache-Status", hit) // upstream was just asked
		time.Sleep(2 * time.Second)
		wantHeader(t, s.get("/memory/n/k", "Cache-Control", "max-age=1"), "Cache-Status", "botwired; fwd=request")
	})
}

// With cache.fresh_for 0 every read asks upstream. With a caught-up view none has to.
func TestNoFreshnessByTimeIsNeeded(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		s.policy = cache.Policy{}
		s.learn(id("n", "k"), "v")
		s.upstream.take()
		wantHeader(t, s.get("/memory/n/k"), "Cache-Status", hit)
		wantStatus(t, s.get("/memory/n/none"), http.StatusNotFound)
		wantAsked(t, s)
	})
}

// contract 7: an outdated copy is never fresh, with or without a caught-up view. It answers only while
// upstream cannot be asked.
func TestAnOutdatedCopyIsNotServed(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.learn(id("n", "k"), "old")
		s.upstream.set(id("n", "k"), "new")
		s.upstream.setDown(true)
		for _, caughtUp := range []bool{true, false} {
			if !caughtUp {
				view.breakOff()
			}
			for _, directive := range []string{"", "max-stale"} {
				w := s.get("/memory/n/k", "Cache-Control", directive)
				wantValue(t, w, "old")
				wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-if-error")
				wantHeader(t, w, "Age", "")
			}
			wantStatus(t, s.get("/memory/n/k", "Cache-Control", "only-if-cached"), http.StatusGatewayTimeout)
		}
		s.upstream.setDown(false)
		w := s.get("/memory/n/k")
		wantValue(t, w, "new")
		wantHeader(t, w, "Cache-Status", "botwired; fwd=stale")
		wantValue(t, s.get("/memory/n/k"), "new")
	})
}

// contract 7: a reader that has seen a delete does not see the older copy again, even if another host has
// written the entry again and upstream cannot be asked, or after a restart.
func TestACopyFromBeforeADeleteIsBuried(t *testing.T) {
	absent := map[string]func(s *sidecar) *httptest.ResponseRecorder{
		"GET":         func(s *sidecar) *httptest.ResponseRecorder { return s.get("/memory/n/k") },
		"GET offline": func(s *sidecar) *httptest.ResponseRecorder { s.upstream.view.breakOff(); return s.get("/memory/n/k") },
		"DELETE":      func(s *sidecar) *httptest.ResponseRecorder { return s.do(http.MethodDelete, "/memory/n/k", "") },
		"DELETE If-Match": func(s *sidecar) *httptest.ResponseRecorder {
			return s.do(http.MethodDelete, "/memory/n/k", "", "If-Match", "*")
		},
	}
	for name, ask := range absent {
		t.Run(name, func(t *testing.T) {
			watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
				s.learn(id("n", "k"), "old")
				s.upstream.remove(id("n", "k"))
				s.upstream.setDown(true)
				wantStatus(t, ask(s), http.StatusNotFound)
				s.blind(id("n", "k"), func() { wantStatus(t, s.get("/memory/n/k"), http.StatusServiceUnavailable) })
				view.catchUp()
				s.upstream.set(id("n", "k"), "new")
				wantStatus(t, s.get("/memory/n/k"), http.StatusServiceUnavailable)
				s.upstream.setDown(false)
				wantValue(t, s.get("/memory/n/k"), "new")
			})
		})
	}
}

// contract 9: an entry that a caught-up view does not show is absent, without a question upstream.
func TestWhatTheViewDoesNotShowIsAbsent(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.learn(id("n", "deleted"), "v")
		s.upstream.take()
		s.upstream.remove(id("n", "deleted"))
		for _, key := range []string{"never", "deleted"} {
			target := "/memory/n/" + key
			for range 2 {
				w := s.get(target)
				wantStatus(t, w, http.StatusNotFound)
				wantHeader(t, w, "Cache-Status", hit)
				time.Sleep(time.Minute)
			}
			wantStatus(t, s.do(http.MethodDelete, target, ""), http.StatusNotFound)
			wantStatus(t, s.do(http.MethodPut, target, putBody("v"), "If-Match", "*"), http.StatusPreconditionFailed)
			s.put(id("n", key), "first", "If-None-Match", "*")
		}
		wantAsked(t, s)
		view.breakOff()
		time.Sleep(3 * time.Second)
		s.upstream.set(id("n", "later"), "v")
		wantValue(t, s.get("/memory/n/later"), "v")
	})
}

// An entry in the view that is not here exists.
func TestWhatTheViewShowsExists(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		for _, key := range []string{"read", "deleted", "appended"} {
			s.upstream.set(id("n", key), "v")
		}
		w := s.do(http.MethodDelete, "/memory/n/deleted", "")
		wantStatus(t, w, http.StatusOK)
		wantHeader(t, w, "Botwired-Write", "pending; seq=1")
		wantAsked(t, s)
		wantHeader(t, s.get("/memory/n/read"), "Cache-Status", "botwired; fwd=miss")
		wantStatus(t, s.do(http.MethodPost, "/_botwired/append?namespace=n&key=appended", putBody("w")), http.StatusOK)
		wantValue(t, s.get("/memory/n/appended"), "vw")
		wantAsked(t, s, question{ID: id("n", "read"), Waits: true}, question{ID: id("n", "appended"), Waits: true})
	})
}

// When the view breaks, freshness counts from the time when it was last caught up. When it has caught up
// again, no version that it missed is an answer.
func TestTheViewBreaksAndCatchesUp(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.learn(id("n", "k"), "old")
		s.learn(id("n", "same"), "v")
		time.Sleep(time.Hour)
		wantHeader(t, s.get("/memory/n/same"), "Cache-Status", hit)
		wantHeader(t, s.get("/memory/n/k"), "Cache-Status", hit)
		s.upstream.take()
		view.breakOff()
		time.Sleep(5 * time.Second)
		s.upstream.set(id("n", "k"), "new")
		wantValue(t, s.get("/memory/n/k"), "old")
		wantAsked(t, s)
		view.catchUp()
		w := s.get("/memory/n/k")
		wantValue(t, w, "new")
		wantHeader(t, w, "Cache-Status", "botwired; fwd=stale")
		s.upstream.take()
		time.Sleep(time.Hour)
		wantHeader(t, s.get("/memory/n/same"), "Cache-Status", hit)
		wantAsked(t, s)
	})
}

// An answer confirmed by a caught-up view begins to get old when the view breaks.
func TestABrokenViewLeavesFreshnessByTime(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.learn(id("n", "k"), "old")
		time.Sleep(time.Hour)
		view.breakOff()
		time.Sleep(11 * time.Second)
		s.upstream.set(id("n", "k"), "new")
		wantHeader(t, s.get("/memory/n/k"), "Cache-Status", "botwired; hit; detail=stale-while-revalidate")
		synctest.Wait()
		wantValue(t, s.get("/memory/n/k"), "new")
	})
}

// A copy read upstream ahead of the watch is not outdated, and neither is an absence.
func TestACopyAheadOfTheWatch(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.learn(id("n", "was"), "v")
		s.learn(id("n", "again"), "v")
		s.upstream.remove(id("n", "again")) // the view has a tombstone
		view.lag()
		time.Sleep(time.Second)
		s.upstream.set(id("n", "again"), "w")
		wantValue(t, s.get("/memory/n/again", "Cache-Control", "no-cache"), "w")
		wantValue(t, s.get("/memory/n/again"), "w")
		s.cache.Changed("n", "again")
		wantValue(t, s.get("/memory/n/again"), "w")
		s.upstream.set(id("n", "k"), "v")
		s.upstream.remove(id("n", "was"))
		wantValue(t, s.get("/memory/n/k", "Cache-Control", "no-cache"), "v")
		wantStatus(t, s.get("/memory/n/was", "Cache-Control", "no-cache"), http.StatusNotFound)
		s.upstream.take()
		wantValue(t, s.get("/memory/n/k"), "v")
		wantStatus(t, s.get("/memory/n/was"), http.StatusNotFound)
		view.catchUp()
		time.Sleep(time.Hour)
		s.upstream.take()
		wantValue(t, s.get("/memory/n/k"), "v")
		wantStatus(t, s.get("/memory/n/was"), http.StatusNotFound)
		wantAsked(t, s)
	})
}

// contract 7: a server that no longer leads answers with an older state than upstream has shown.
func TestAnOlderAnswerThanTheViewIsNone(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		s.upstream.set(id("n", "k"), "old")
		s.upstream.mu.Lock()
		old := s.upstream.entries[id("n", "k")]
		s.upstream.mu.Unlock()
		s.upstream.set(id("n", "k"), "new")
		s.upstream.mu.Lock()
		s.upstream.entries[id("n", "k")] = old
		s.upstream.mu.Unlock()
		w := s.get("/memory/n/k")
		wantDetail(t, w, http.StatusServiceUnavailable, "older state")
		wantHeader(t, w, "Retry-After", "1")
		s.upstream.set(id("n", "k"), "newer")
		wantValue(t, s.get("/memory/n/k"), "newer")
	})
}

// A reader that knows of a version does not join an earlier request.
func TestAReaderOfAVersionDoesNotJoinAnOlderRequest(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		s.upstream.set(id("n", "k"), "first")
		reader, older := s.asking("/memory/n/k")
		s.upstream.set(id("n", "k"), "second")
		s.upstream.release()
		wantValue(t, s.get("/memory/n/k"), "second")
		close(older.answer)
		wantStatus(t, <-reader, http.StatusOK) // either version: it began before
		wantValue(t, s.get("/memory/n/k"), "second")
	})
}

// After a change, readers never get an answer from before it, even while others read and write.
func TestNoOldAnswerAfterAChangeElsewhere(t *testing.T) {
	for _, fetches := range []bool{false, true} {
		t.Run(fmt.Sprint("fetches ", fetches), func(t *testing.T) {
			s := newWatched(t)
			if fetches {
				s.run()
			}
			hammer(t, s)
		})
	}
}

// hammer reads three entries while another host writes them and each writer reads too.
func hammer(t *testing.T, s *sidecar) {
	var writing, reading sync.WaitGroup
	var stop atomic.Bool
	for i := range 3 {
		r := &register{id: id("n", "k"+strconv.Itoa(i)), deletes: i > 0}
		read := func() {
			if err := r.read(s, pick("", "", "", "no-cache")); err != nil {
				t.Error(err)
				stop.Store(true)
			}
		}
		writing.Go(func() {
			for range 200 {
				version := r.begun.Add(1)
				if r.isDelete(version) {
					s.upstream.remove(r.id)
				} else {
					s.upstream.set(r.id, strconv.FormatInt(version, 10))
				}
				r.sure(version)
				read()
				read()
				s.cache.Await() // it now has an answer that the next version makes old
			}
		})
		for range 2 {
			reading.Go(func() {
				for !stop.Load() {
					read()
				}
			})
		}
	}
	writing.Wait()
	stop.Store(true)
	reading.Wait()
}

// An answer from an earlier span of the view is compared again.
func TestAnotherSpanOfTheView(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.learn(id("n", "k"), "old")
		wantHeader(t, s.get("/memory/n/k"), "Cache-Status", hit)
		time.Sleep(time.Hour)
		view.seen = nil
		s.upstream.set(id("n", "k"), "new")
		view.since = time.Now()
		wantValue(t, s.get("/memory/n/k"), "new")
	})
}

// With own writes and others', pending and settled, lists and reads: no reader sees an entry go back.
func TestAViewBesideOwnWrites(t *testing.T) {
	s := newWatched(t)
	s.run()
	var writing, rest sync.WaitGroup
	var stop atomic.Bool
	// Readers rest: a DELETE looks again whenever upstream has answered meanwhile, and upstream takes no time here.
	for i := range 4 {
		r := &register{id: id("n", "k"+strconv.Itoa(i)), deletes: i%2 == 1}
		writing.Go(func() {
			for range 150 {
				if err := r.write(s); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for _, act := range []func() error{
			func() error { time.Sleep(time.Millisecond); return r.read(s, pick("", "", "no-cache")) },
			func() error { s.flusher.settle(r.id); return nil },
		} {
			rest.Go(func() {
				for !stop.Load() {
					if err := act(); err != nil {
						t.Error(err)
						stop.Store(true)
					}
				}
			})
		}
		if !r.deletes {
			rest.Go(func() {
				for !stop.Load() {
					time.Sleep(time.Millisecond)
					if err := r.list(s, pick("", "no-cache")); err != nil {
						t.Error(err)
						stop.Store(true)
					}
				}
			})
		}
	}
	writing.Wait()
	stop.Store(true)
	rest.Wait()
}
