package proxy_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// The daemon fetches an entry at once after another host has changed it, if there is a local copy. For a
// delete, the view is enough.
func TestAChangeElsewhereIsFetched(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		s.run()
		s.learn(id("n", "k"), "old")
		s.learn(id("n", "gone"), "old")
		synctest.Wait() // the learned changes have been looked at
		s.upstream.take()
		s.upstream.set(id("n", "k"), "new")
		s.upstream.set(id("n", "not held"), "new")
		s.upstream.remove(id("n", "gone"))
		synctest.Wait()
		wantAsked(t, s, question{ID: id("n", "k")})
		wantValue(t, s.get("/memory/n/k"), "new")
		wantStatus(t, s.get("/memory/n/gone"), http.StatusNotFound)
		wantAsked(t, s)
	})
}

// Another host's change does not overtake a pending write: the fence decides.
func TestAPendingWriteStays(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		s.run()
		s.learn(id("n", "k"), "old")
		s.put(id("n", "k"), "mine")
		s.upstream.take()
		s.upstream.set(id("n", "k"), "theirs")
		synctest.Wait()
		wantAsked(t, s)
		wantValue(t, s.get("/memory/n/k"), "mine")
	})
}

// A view proves that another host has deleted an entry, without a question upstream.
func TestADeletionElsewhereIsTakenIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWatched(t, func(o *journal.Options, _ *proxy.Options) {
			o.LossLimit = journal.LossLimit{Entries: 100, Share: 0.5}
		})
		s.run()
		s.learn(id("n", "k"), "v")
		synctest.Wait() // the learned change has been looked at
		s.upstream.take()
		s.upstream.remove(id("n", "k"))
		synctest.Wait()
		wantAsked(t, s)
		if state, err := s.journal.Lookup(id("n", "k")); err != nil || state.Kind == journal.Settled {
			t.Errorf("the copy is still here: %+v, %v", state, err)
		}
	})
}

// A watch that catches up reports very many changes at once: few requests are in flight, and each entry is
// asked for once. The next reader asks for an entry that the queue had no room for.
func TestAStormOfChanges(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		const held = 20
		for i := range held {
			s.learn(id("n", fmt.Sprint("held", i)), "old")
		}
		view.breakOff()
		for i := range held {
			s.upstream.set(id("n", fmt.Sprint("held", i)), "older")
			s.upstream.set(id("n", fmt.Sprint("held", i)), "new")
		}
		for i := range changesKept {
			s.upstream.set(id("n", fmt.Sprint("other", i)), "v")
		}
		s.upstream.take()
		view.catchUp()
		questions := s.upstream.hold()
		s.run()
		for range changesAtOnce {
			<-questions
		}
		synctest.Wait()
		if n := len(s.upstream.take()); n != changesAtOnce {
			t.Errorf("%d requests are under way", n)
		}
		s.upstream.release()
		s.upstream.setDown(true)
		wantStatus(t, s.get("/memory/n/"+fmt.Sprint("other", changesKept-1)), http.StatusServiceUnavailable)
	})
}

// A fetch that upstream does not answer is retried.
func TestAFetchOfAChangeIsTriedAgain(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		s.run()
		s.learn(id("n", "k"), "old")
		s.upstream.setDown(true)
		s.upstream.set(id("n", "k"), "new")
		time.Sleep(time.Second)
		s.upstream.setDown(false)
		time.Sleep(10 * time.Second)
		s.upstream.take()
		wantValue(t, s.get("/memory/n/k"), "new")
		wantAsked(t, s)
	})
}
