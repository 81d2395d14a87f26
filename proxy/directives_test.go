package proxy_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// A caller that accepts stale answers gets one at once while upstream is asked, even in an outage or with
// only-if-cached.
func TestACallerThatTakesStaleAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "old")
		wantStatus(t, s.get("/memory/n"), http.StatusOK)
		s.upstream.set(id("n", "k"), "new")
		time.Sleep(75 * time.Second)
		s.upstream.take()
		for _, target := range []string{"/memory/n/k", "/memory/n"} {
			s.upstream.setDown(true)
			for _, directive := range []string{"max-stale", "max-stale=65", "max-stale, only-if-cached"} {
				w := s.get(target, "Cache-Control", directive)
				wantStatus(t, w, http.StatusOK)
				wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-while-revalidate")
				wantHeader(t, w, "Age", "75")
				synctest.Wait()
			}
			wantDetail(t, s.get(target, "Cache-Control", "max-stale=64"), http.StatusServiceUnavailable,
				"known here, but")
			s.upstream.setDown(false)
		}
		wantValue(t, s.get("/memory/n/k", "Cache-Control", "max-stale"), "old")
		synctest.Wait()
		wantValue(t, s.get("/memory/n/k"), "new") // fetched meanwhile
		wantHeader(t, s.get("/memory/n/k", "Cache-Control", "min-fresh=10"), "Cache-Status", "botwired; hit")
		time.Sleep(time.Second)
		wantHeader(t, s.get("/memory/n/k", "Cache-Control", "min-fresh=10"), "Cache-Status", "botwired; fwd=request")
	})
}

// contract 7: an entry read with no-store is not kept. An existing copy changes to the state that the reader
// has seen.
func TestNoStore(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		k, noStore := id("n", "k"), []string{"Cache-Control", "no-store"}
		s.upstream.set(k, "theirs")
		wantStatus(t, s.get("/memory/n/absent", noStore...), http.StatusNotFound)
		w := s.get("/memory/n/k", noStore...)
		wantValue(t, w, "theirs")
		wantHeader(t, w, "Cache-Status", "botwired; fwd=miss")
		tag := w.Header().Get("ETag")
		synctest.Wait()
		s.upstream.take()
		s.upstream.setDown(true)
		for _, target := range []string{"/memory/n/k", "/memory/n/absent"} {
			wantDetail(t, s.get(target), http.StatusServiceUnavailable, "not known here")
		}
		if state, err := s.journal.Lookup(k); err != nil || state.Kind != journal.Unknown {
			t.Errorf("a copy is kept: %+v, %v", state, err)
		}
		s.upstream.setDown(false)
		w = s.get("/memory/n/k")
		wantHeader(t, w, "ETag", tag)

		time.Sleep(75 * time.Second)
		s.upstream.set(k, "theirs, too")
		wantValue(t, s.get("/memory/n/k", noStore...), "theirs, too")
		s.upstream.setDown(true)
		wantValue(t, s.get("/memory/n/k"), "theirs, too")
		wantValue(t, s.get("/memory/n/k", noStore...), "theirs, too") // known here, so it answers
		s.put(k, "mine", noStore...)
		wantValue(t, s.get("/memory/n/k", noStore...), "mine")
		synctest.Wait()
	})
}

// contract 7: a read with no-store updates the listing that later readers use.
func TestNoStoreMovesAListingOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		wantStatus(t, s.get("/memory/n"), http.StatusOK)
		s.upstream.set(id("n", "k"), "theirs")
		time.Sleep(usual.AbsentFor)
		wantValue(t, s.get("/memory/n/k", "Cache-Control", "no-store"), "theirs")
		var listing struct{ Count int }
		decode(t, s.get("/memory/n"), &listing)
		if listing.Count != 1 {
			t.Errorf("%d keys are listed", listing.Count)
		}
	})
}

// An unknown Age is left out: for a copy from before the clock was set back.
func TestAgeThatNobodyKnows(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		k := id("n", "k")
		s.learn(k, "theirs")
		wantValue(t, s.get("/memory/n/k"), "theirs")
		s.cache.Await()
		item, generation := s.cache.Get(cache.Key{Namespace: k.Namespace, Key: k.Key})
		later := *item
		later.ConfirmedAt = time.Now().Add(time.Hour)
		s.cache.Put(cache.Key{Namespace: k.Namespace, Key: k.Key}, generation, later)
		s.cache.Await()
		s.upstream.setDown(true)
		w := s.get("/memory/n/k")
		wantValue(t, w, "theirs")
		wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-if-error")
		wantHeader(t, w, "Age", "")
		wantDetail(t, s.get("/memory/n/k", "Cache-Control", "max-age=60"), http.StatusServiceUnavailable,
			"known here, but")
		wantHeader(t, s.get("/memory/n/k", "Cache-Control", "max-stale"), "Age", "")
		synctest.Wait()
	})
}
