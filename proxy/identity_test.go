package proxy_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// fakeIdentity doubts when the test says so.
type fakeIdentity struct {
	mu      sync.Mutex
	barrier time.Time
	doubts  uint64
}

func (f *fakeIdentity) doubt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.barrier = time.Now()
	f.doubts++
}

func (f *fakeIdentity) Stands(confirmedAt time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return confirmedAt.After(f.barrier)
}

func (f *fakeIdentity) Epoch() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.doubts
}

func (f *fakeIdentity) State() identity.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := identity.State{Start: identity.Copied, Doubts: map[identity.Reason]int{}}
	if f.doubts > 0 {
		st.Doubts[identity.Suspended] = int(f.doubts)
		st.Newest = &identity.Doubt{Reason: identity.Suspended, Detail: "the machine was suspended for 20s", At: f.barrier}
	}
	return st
}

// inDoubtBubble runs a test of a server with a fakeIdentity.
func inDoubtBubble(t *testing.T, test func(t *testing.T, s *sidecar, who *fakeIdentity)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		who := &fakeIdentity{}
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) { o.Identity = who })
		test(t, s, who)
	})
}

// After a doubt, no earlier confirmation counts as fresh until upstream was asked again. If upstream cannot
// be asked, the copies answer as in any outage (contract 19).
func TestWhatWasReadBeforeADoubtIsAskedAgain(t *testing.T) {
	inDoubtBubble(t, func(t *testing.T, s *sidecar, who *fakeIdentity) {
		s.learn(id("n", "k"), "old")
		s.learn(id("n", "stays"), "old")
		wantKeys(t, s.get("/memory/n"), "stays", "k")
		wantStatus(t, s.get("/memory/n/absent"), http.StatusNotFound)
		s.upstream.take()
		time.Sleep(time.Second)
		who.doubt()
		time.Sleep(time.Millisecond)
		s.upstream.set(id("n", "k"), "new")
		s.upstream.set(id("n", "absent"), "new")

		s.upstream.setDown(true)
		w := s.get("/memory/n/k")
		wantValue(t, w, "old")
		wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-if-error")
		wantHeader(t, w, "Age", "1")
		w = s.get("/memory/n/absent")
		wantStatus(t, w, http.StatusNotFound)
		wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-if-error")
		s.upstream.setDown(false)
		s.upstream.take()

		w = s.get("/memory/n/k")
		wantValue(t, w, "new")
		wantHeader(t, w, "Cache-Status", "botwired; fwd=stale")
		wantValue(t, s.get("/memory/n/absent"), "new")
		wantKeys(t, s.get("/memory/n"), "absent", "k", "stays")
		wantAsked(t, s, question{ID: id("n", "k")}, question{ID: id("n", "absent")}, question{ID: id("n", "")})
		wantValue(t, s.get("/memory/n/k"), "new")
		wantAsked(t, s)
	})
}

// Pending writes are the newest state, also for a daemon that doubts its identity.
func TestPendingWritesAreReadInDoubt(t *testing.T) {
	inDoubtBubble(t, func(t *testing.T, s *sidecar, who *fakeIdentity) {
		s.put(id("n", "k"), "mine")
		who.doubt()
		w := s.get("/memory/n/k")
		wantValue(t, w, "mine")
		wantHeader(t, w, "Cache-Status", "botwired; hit; detail=pending")
		wantAsked(t, s)
	})
}

// An answer in flight at a doubt may be older than the doubt: it is dropped, and upstream is asked again.
func TestAnswersThatWereUnderWayAtADoubt(t *testing.T) {
	for _, target := range []string{"/memory/n/k", "/memory/n"} {
		inDoubtBubble(t, func(t *testing.T, s *sidecar, who *fakeIdentity) {
			s.upstream.set(id("n", "k"), "old")
			reader, held := s.asking(target)
			who.doubt()
			time.Sleep(time.Millisecond)
			s.upstream.set(id("n", "k"), "new")
			s.upstream.set(id("n", "later"), "new")
			s.upstream.release()
			close(held.answer)
			if w := <-reader; target == "/memory/n" {
				wantKeys(t, w, "later", "k")
			} else {
				wantValue(t, w, "new")
			}
			if asked := s.upstream.take(); len(asked) != 2 {
				t.Errorf("upstream was asked %d times", len(asked))
			}
		})
	}
}

// The status and the metrics say why the daemon is in doubt.
func TestStatusOfADoubt(t *testing.T) {
	inDoubtBubble(t, func(t *testing.T, s *sidecar, who *fakeIdentity) {
		var got api.Status
		decode(t, s.get("/_botwired/status"), &got)
		if got.Identity.Start != "copied" || got.Identity.Newest != nil || len(got.Identity.Doubts) != 0 {
			t.Errorf("the status says %+v", got.Identity)
		}
		who.doubt()
		decode(t, s.get("/_botwired/status"), &got)
		if d := got.Identity.Newest; d == nil || d.Reason != "suspended" || d.Detail == "" || d.At.IsZero() || got.Identity.Doubts["suspended"] != 1 {
			t.Errorf("the status says %+v", got.Identity)
		}
		if text := s.get("/_botwired/metrics").Body.String(); !strings.Contains(text, `botwired_identity_doubts_total{reason="suspended"} 1`) {
			t.Errorf("the metrics say %s", text)
		}
	})
}
