package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/botwired/botwired/journal"
)

// A condition holds across hosts if its caller waits for upstream or the namespace writes through. Other
// writes are as usual.
func TestAConditionReachesAcrossHosts(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		var through []journal.NewWrite
		s.flusher.through = func(w journal.NewWrite) (bool, error) {
			through = append(through, w)
			s.upstream.swap(w.ID, w.Op, w.Value, s.upstream.tick(), 1)
			return true, nil
		}
		tag := s.put(id("n", "k"), "first").Header().Get("Etag")
		w := s.put(id("n", "k"), "second", "If-Match", tag, "Prefer", "wait=0")
		wantHeader(t, w, "Botwired-Write", "pending; seq=2")
		if len(through) != 0 {
			t.Fatalf("a caller that does not wait went through: %+v", through)
		}
		w = s.put(id("n", "k"), "third", "If-Match", w.Header().Get("Etag"), "Prefer", "wait=5")
		wantHeader(t, w, "Botwired-Write", "settled; seq=3")
		wantHeader(t, w, "Preference-Applied", "wait=5")
		wantStatus(t, s.do(http.MethodPut, "/memory/n/k", putBody("v"), "If-Match", tag, "Prefer", "wait=5"), http.StatusPreconditionFailed)
		wantStatus(t, s.do(http.MethodPost, "/_botwired/append?namespace=n&key=k", putBody("+"), "Prefer", "wait=5"), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "third+")
		tag = s.get("/memory/n/k").Header().Get("Etag")
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", "", "If-Match", tag, "Prefer", "wait=5"), http.StatusOK)
		if len(through) != 3 {
			t.Fatalf("%d writes went through, want 3", len(through))
		}
		for _, w := range through {
			if w.If == nil { // an exact engine would carry it out over any version
				t.Errorf("%s %s is not conditional", w.Op, w.Value)
			}
		}
	})
}

// A caller that another host has beaten reads that host's value.
func TestABeatenCallerReadsTheWinner(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.learn(id("n", "k"), "old")
		tag := s.get("/memory/n/k").Header().Get("Etag")
		view.lag()
		s.upstream.set(id("n", "k"), "theirs")
		tries := 0
		s.flusher.through = func(w journal.NewWrite) (bool, error) {
			if tries++; tries == 1 || tries == 2 {
				return false, journal.ErrChanged
			}
			s.upstream.swap(w.ID, w.Op, w.Value, s.upstream.tick(), 1)
			return true, nil
		}
		w := s.do(http.MethodPut, "/memory/n/k", putBody("mine"), "If-Match", tag, "Prefer", "wait=5")
		wantDetail(t, w, http.StatusPreconditionFailed, "another writer has changed it")
		w = s.get("/memory/n/k")
		wantValue(t, w, "theirs")
		if w.Header().Get("Etag") == tag {
			t.Error("the winner has the tag of the loser")
		}
		wantStatus(t, s.do(http.MethodPost, "/_botwired/append?namespace=n&key=k", putBody("+mine"), "Prefer", "wait=5"), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "theirs+mine")
		if tries != 3 {
			t.Errorf("%d tries", tries)
		}
	})
}

// Without versions upstream, a condition is local: BotWire does not know of it.
func TestAConditionIsLocalWithoutVersions(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.flusher.await = func(_ context.Context, id journal.ID, _ uint64) bool { return s.flusher.settle(id) }
		w := s.put(id("n", "k"), "v", "If-None-Match", "*", "Prefer", "wait=5")
		wantHeader(t, w, "Botwired-Write", "settled; seq=1")
		if held, _ := s.upstream.holds(id("n", "k")); held != "v" {
			t.Errorf("upstream holds %q", held)
		}
	})
}

// The status and the metrics show the watch, if there is one.
func TestTheStatusSaysHowTheWatchDoes(t *testing.T) {
	type document struct {
		Upstream struct {
			Watch *struct {
				CaughtUp bool `json:"caught_up"`
				Reason   string
				Entries  int
			}
		}
	}
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.upstream.set(id("n", "k"), "v")
		s.upstream.swap(id("n", "mine"), journal.Put, "v", s.upstream.tick(), 1)
		for _, caughtUp := range []bool{true, false} {
			var doc document
			decode(t, s.get("/_botwired/status"), &doc)
			if w := doc.Upstream.Watch; w == nil || w.CaughtUp != caughtUp || (w.Reason == "") != caughtUp || w.Entries != 2 {
				t.Errorf("%+v", w)
			}
			text := s.get("/_botwired/metrics").Body.String()
			for _, line := range []string{
				"botwired_watch_caught_up " + map[bool]string{true: "1", false: "0"}[caughtUp], "botwired_watch_entries 2",
				`botwired_watch_events_total{writer="own"} 1`, `botwired_watch_events_total{writer="foreign"} 1`, "botwired_watch_fetches_total 0",
			} {
				if !strings.Contains(text, line+"\n") {
					t.Errorf("the metrics lack %q", line)
				}
			}
			view.breakOff()
		}
	})
	inBubble(t, func(t *testing.T, s *sidecar) {
		var doc document
		decode(t, s.get("/_botwired/status"), &doc)
		if doc.Upstream.Watch != nil {
			t.Errorf("%+v", doc)
		}
	})
}
