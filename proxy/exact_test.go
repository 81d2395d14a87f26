package proxy_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// A condition holds across hosts if its caller waits for upstream or the namespace writes through. Other
// writes are as usual.
func TestAConditionReachesAcrossHosts(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		var over []bool
		s.flusher.become(func(w journal.Write) (bool, error) {
			over = append(over, w.Over != nil)
			return s.flusher.settle(w.ID), nil
		})
		tag := s.put(id("n", "k"), "first").Header().Get("Etag")
		w := s.put(id("n", "k"), "second", "If-Match", tag, "Prefer", "wait=0")
		wantHeader(t, w, "Botwired-Write", "pending; seq=2")
		if len(over) != 0 {
			t.Fatal("a caller waits that does not want to")
		}
		w = s.put(id("n", "k"), "third", "If-Match", w.Header().Get("Etag"), "Prefer", "wait=5")
		wantHeader(t, w, "Botwired-Write", "settled; seq=3")
		wantHeader(t, w, "Preference-Applied", "wait=5")
		wantStatus(t, s.do(http.MethodPut, "/memory/n/k", putBody("v"), "If-Match", tag, "Prefer", "wait=5"), http.StatusPreconditionFailed)
		wantStatus(t, s.do(http.MethodPost, "/_botwired/append?namespace=n&key=k", putBody("+"), "Prefer", "wait=5"), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "third+")
		tag = s.get("/memory/n/k").Header().Get("Etag")
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", "", "If-Match", tag, "Prefer", "wait=5"), http.StatusOK)
		// The second write goes first, as the third is about what upstream holds.
		if want := []bool{false, true, true, true}; !slices.Equal(over, want) {
			t.Errorf("the writes go by a condition upstream: %v, want %v", over, want)
		}
	})
}

// A caller that another host has beaten reads that host's value. It has made no write, and its write leaves no dead
// letter.
func TestABeatenCallerReadsTheWinner(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, view *fakeView) {
		s.learn(id("n", "k"), "old")
		tag := s.get("/memory/n/k").Header().Get("Etag")
		view.lag()
		s.upstream.set(id("n", "k"), "theirs")
		tries := 0
		s.flusher.become(func(w journal.Write) (bool, error) {
			if tries++; tries > 2 {
				return s.flusher.settle(w.ID), nil
			}
			theirs, err := s.upstream.Get(t.Context(), w.ID, false)
			if err == nil {
				err = s.journal.Fence.Lose(w, *theirs, "another host has written later")
			}
			return false, err
		})
		w := s.do(http.MethodPut, "/memory/n/k", putBody("mine"), "If-Match", tag, "Prefer", "wait=5")
		wantDetail(t, w, http.StatusPreconditionFailed, "another writer has changed it")
		wantHeader(t, w, "Botwired-Write", "superseded; seq=2")
		w = s.get("/memory/n/k")
		wantValue(t, w, "theirs")
		if w.Header().Get("Etag") == tag {
			t.Error("the winner has the tag of the loser")
		}
		wantStatus(t, s.do(http.MethodPost, "/_botwired/append?namespace=n&key=k", putBody("+mine"), "Prefer", "wait=5"), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "theirs+mine")
		if n := s.journal.Stats().DeadLetters + s.journal.Stats().Conflicts; tries != 3 || n != 0 {
			t.Errorf("%d tries, %d dead letters", tries, n)
		}
	})
}

// contract 5: of a write whose condition has to hold upstream, the caller is told if a newer one of this daemon's
// callers took its place first. While an earlier write is pending, such a write is not made.
func TestAConditionAndTheWritesAround(t *testing.T) {
	watching(t, func(t *testing.T, s *sidecar, _ *fakeView) {
		k := id("n", "k")
		s.flusher.become(func(w journal.Write) (bool, error) {
			s.put(k, "newer")
			s.flusher.settle(k)
			return false, nil
		})
		w := s.do(http.MethodPut, "/memory/n/k", putBody("v"), "If-None-Match", "*", "Prefer", "wait=5")
		wantDetail(t, w, http.StatusGatewayTimeout, "has taken its place")
		wantHeader(t, w, "Botwired-Write", "superseded; seq=1")
		s.put(k, "pending")
		s.flusher.become(func(w journal.Write) (bool, error) { return false, unconfirmed{time.Minute} })
		w = s.do(http.MethodPut, "/memory/n/k", putBody("v"), "If-Match", "*", "Prefer", "wait=5")
		wantDetail(t, w, http.StatusServiceUnavailable, "nothing of this one was made: upstream has not confirmed it")
		wantHeader(t, w, "Retry-After", "60")
		if n := s.journal.Stats().LastSeq; n != 3 {
			t.Errorf("%d writes were made, want 3", n)
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
