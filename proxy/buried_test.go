package proxy_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
)

// blind asks for an entry while the view is unknown and the cache is empty, as after a restart.
func (s *sidecar) blind(id journal.ID, ask func()) {
	s.upstream.view.setKnown(false)
	s.cache.ChangedElsewhere(id.Namespace, id.Key)
	ask()
	s.upstream.view.setKnown(true)
}

func (v *fakeView) setKnown(known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known = known
}

// contract 7: an answer from before a delete makes no copy once the view shows the delete. Readers may have
// got a 404, and the entry may have been written again.
func TestAnAnswerFromBeforeADeleteMakesNoCopy(t *testing.T) {
	for _, anew := range []bool{false, true} {
		watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
			s.upstream.set(id("n", "k"), "old")
			reader, q := s.asking("/memory/n/k")
			s.upstream.remove(id("n", "k"))
			wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
			if anew {
				s.upstream.set(id("n", "k"), "new")
			}
			close(q.answer)
			wantValue(t, <-reader, "old")
			s.upstream.release()
			s.upstream.setDown(true)
			s.blind(id("n", "k"), func() { wantStatus(t, s.get("/memory/n/k"), http.StatusServiceUnavailable) })
			if anew {
				wantStatus(t, s.get("/memory/n/k"), http.StatusServiceUnavailable)
			}
		})
	}
}

// contract 7: the view may show the delete at the last moment, just before the answer is accepted.
func TestAnAnswerMakesNoCopyBesideADelete(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.upstream.set(id("n", "k"), "old")
		reader, q := s.asking("/memory/n/k")
		looks := 0
		view.looked = func() {
			if looks++; looks == 2 { // the first look is for a tombstone
				s.upstream.remove(id("n", "k"))
				wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
			}
		}
		close(q.answer)
		wantStatus(t, <-reader, http.StatusNotFound)
		view.looked = nil
		s.upstream.release()
		s.upstream.setDown(true)
		s.blind(id("n", "k"), func() { wantStatus(t, s.get("/memory/n/k"), http.StatusServiceUnavailable) })
	})
}

// An imported line from before another host's delete does not bring the entry back, with or without a local
// copy.
func TestImportOfWhatWasDeletedSince(t *testing.T) {
	for _, held := range []bool{true, false} {
		watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
			s.upstream.set(id("n", "k"), "old")
			at := float64(time.Now().UnixMicro()) / 1e6
			if held {
				wantValue(t, s.get("/memory/n/k"), "old")
			}
			time.Sleep(time.Second)
			s.upstream.remove(id("n", "k"))
			line := importLine("k", "old", at)
			s.wantImported("", line, api.Imported{Lines: 1, Older: 1})
			s.wantImported("", importLine("k", "newer", at+2), api.Imported{Lines: 1, Written: 1})
		})
	}
}

// A view without even a tombstone does not prove that another host has deleted an entry. If upstream seems to
// have lost many copies, they stay.
func TestWhatLeavesNoTraceIsNoDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWatched(t, careful)
		const held = 20
		for i := range held {
			o := journal.Observation{Value: "v", CreatedAt: 5, UpdatedAt: 5}
			if _, err := s.journal.Fill(id("n", fmt.Sprint("k", i)), &o, func() bool { return true }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		for i := range held {
			wantValue(t, s.get(fmt.Sprint("/memory/n/k", i)), "v")
		}
		if got := s.dataLoss("n"); got == nil || got.Missing != held {
			t.Errorf("%+v", got)
		}
	})
}
