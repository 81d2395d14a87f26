package proxy_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// Entries that upstream has lost stay readable after a restart, and the restoration goes on.
func TestRestoreGoesOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		on := func(fs *vfs.MemFS) func(*journal.Options, *proxy.Options) {
			return func(stored *journal.Options, opts *proxy.Options) {
				careful(stored, opts)
				stored.FS = fs
			}
		}
		s := newSidecar(t, on(fs))
		s.learnMany("ns", 250)
		s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		s.get("/memory/ns/key-1")
		wantStatus(t, s.do(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1s", ""), http.StatusGatewayTimeout)
		again := newSidecar(t, on(fs.CrashClone(vfs.CrashCloneCfg{})), func(_ *journal.Options, o *proxy.Options) { o.Upstream = s.upstream })
		again.upstream = s.upstream
		again.flusher.upstream = s.upstream
		again.server.Resume()
		for range 6 {
			synctest.Wait()
			for _, p := range again.journal.PendingList("ns", 1000) {
				again.settle(p.ID)
			}
		}
		for i := range 250 {
			if value, _ := s.upstream.holds(id("ns", fmt.Sprint("key-", i))); value != fmt.Sprint("value ", i) {
				t.Errorf("upstream holds %q of %d", value, i)
			}
		}
		if suspect := again.dataLoss("ns"); suspect != nil {
			t.Errorf("%+v", suspect)
		}
	})
}

// During a restoration upstream may be away and the journal full, and a person may end it.
func TestRestoreWaits(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 20)
		s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		s.get("/memory/ns/key-1")
		s.upstream.setDown(true)
		w := s.do(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1s", "")
		wantStatus(t, w, http.StatusServiceUnavailable) // upstream must first say that it lacks them
		s.upstream.setDown(false)
		wantStatus(t, s.do(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1s", ""), http.StatusGatewayTimeout)
		if doc := s.dataLoss("ns"); doc == nil || !doc.Restoring {
			t.Fatalf("%+v", doc)
		}
		stopped := s.do(http.MethodPost, "/_botwired/restore?namespace=ns&stop=true", "")
		wantStatus(t, stopped, http.StatusOK)
		if doc := s.dataLoss("ns"); doc == nil || doc.Restoring {
			t.Fatalf("%+v", doc)
		}
		s.settleAll("ns")
		wantStatus(t, s.do(http.MethodPost, "/_botwired/restore?namespace=ns", ""), http.StatusOK)
		if doc := s.dataLoss("ns"); doc != nil {
			t.Fatalf("%+v", doc)
		}
	})
}

// An upstream with more entries than it lists gets all back, and is asked once for each that it does not
// list, even if it is away for a while.
func TestRestoreOfMoreThanUpstreamLists(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		const entries = 1250
		s.learnMany("ns", entries)
		s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		s.get("/memory/ns/key-1")
		s.upstream.take()
		restoring := s.begin(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1h", "")
		for settled := 0; settled < entries; {
			synctest.Wait()
			waiting := s.journal.PendingList("ns", 1000)
			if len(waiting) == 0 {
				t.Fatalf("nothing is pending after %d entries", settled)
			}
			questions := s.upstream.hold()
			for _, p := range waiting {
				s.settle(p.ID)
				settled++
			}
			list := <-questions
			s.upstream.setDown(true)
			close(list.answer)
			s.upstream.release()
			synctest.Wait()
			s.upstream.setDown(false)
			time.Sleep(restorePause)
		}
		var doc api.Restoration
		decode(t, <-restoring, &doc)
		if doc.State != "over" || doc.Restored != entries || doc.Left != 0 {
			t.Errorf("%+v", doc)
		}
		if n := len(s.upstream.take()); n > 2*entries {
			t.Errorf("upstream was asked %d times", n)
		}
	})
}

// A caller that waits for a restoration that is stopped early is not told that it is over.
func TestWaitersForARestorationThatIsStopped(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 20)
		s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		s.get("/memory/ns/key-1")
		const path = "/_botwired/restore?namespace=ns&timeout=1h"
		waiter := s.begin(http.MethodPost, path, "")
		synctest.Wait()
		wantStatus(t, s.do(http.MethodPost, "/_botwired/restore?namespace=ns&stop=true", ""), http.StatusOK)
		var doc api.Restoration
		w := <-waiter
		wantStatus(t, w, http.StatusOK)
		if decode(t, w, &doc); doc.State != "stopped" || doc.Left != 20 {
			t.Errorf("%+v", doc)
		}
		waiter = s.begin(http.MethodPost, path, "")
		synctest.Wait()
		s.server.EndWaits()
		if w := <-waiter; w.Code/100 == 2 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if doc := s.dataLoss("ns"); doc == nil || !doc.Restoring {
			t.Errorf("%+v", doc)
		}
	})
}
