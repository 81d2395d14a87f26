package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

const restoring = "/_botwired/restore?namespace=ns&timeout=1h"

// lose makes the daemon know entries, and notice that upstream has lost them.
func (s *sidecar) lose(entries int) {
	s.t.Helper()
	s.learnMany("ns", entries)
	s.upstream.wipe()
	time.Sleep(2 * time.Minute)
	wantCacheStatus(s.t, s.get("/memory/ns/key-1"), "hit; detail=data-loss", "120")
}

// wantRestored fails the test unless the answer to a restore is as wanted.
func wantRestored(t *testing.T, w *httptest.ResponseRecorder, code int, want api.Restoration) {
	t.Helper()
	var doc api.Restoration
	decode(t, w, &doc)
	doc.Namespace, doc.Waits = "", nil
	if w.Code != code || doc != want {
		t.Errorf("%d %+v, want %d %+v", w.Code, doc, code, want)
	}
}

// contract 9: what is restored is pending like any other write: it answers readers, and goes on after a crash. The
// same request may come again at any time.
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
		s.lose(250)
		for range 2 {
			wantRestored(t, s.do(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1s", ""), http.StatusGatewayTimeout,
				api.Restoration{State: "running", Left: 250})
		}
		if doc := s.dataLoss("ns"); doc != nil {
			t.Errorf("%+v", doc)
		}
		wantCacheStatus(t, s.get("/memory/ns/key-1"), "hit; detail=pending", "0")
		for i := range 100 {
			s.settle(id("ns", fmt.Sprint("key-", i)))
		}
		again := newSidecar(t, on(fs.CrashClone(vfs.CrashCloneCfg{})), func(_ *journal.Options, o *proxy.Options) { o.Upstream = s.upstream })
		again.upstream, again.flusher.upstream = s.upstream, s.upstream
		again.put(id("ns", "other"), "an agent's, for which a restore does not wait")
		answer := again.begin(http.MethodPost, restoring, "")
		synctest.Wait()
		for i := range 150 {
			again.settle(id("ns", fmt.Sprint("key-", 100+i)))
		}
		wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: 150}})
		for i := range 250 {
			if value, _ := s.upstream.holds(id("ns", fmt.Sprint("key-", i))); value != fmt.Sprint("value ", i) {
				t.Errorf("upstream holds %q of %d", value, i)
			}
		}
		wantStatus(t, again.get("/memory/ns?limit=1000", "Cache-Control", "no-cache"), http.StatusOK)
		if doc := again.dataLoss("ns"); doc != nil {
			t.Errorf("%+v", doc)
		}
	})
}

// Of an entry that only a list has shown there is no copy: a restoration says how many it cannot restore.
func TestRestoreSaysWhatItCannotRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, careful)
		s.learnMany("ns", 20)
		for i := range 7 {
			s.upstream.set(id("ns", fmt.Sprint("seen-", i)), "another host's")
		}
		wantStatus(t, s.get("/memory/ns?limit=1000", "Cache-Control", "no-cache"), http.StatusOK)
		s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		wantCacheStatus(t, s.get("/memory/ns/key-1"), "hit; detail=data-loss", "120")
		s.put(id("ns", "seen-0"), "pending: it needs no restoration")
		answer := s.begin(http.MethodPost, restoring, "")
		synctest.Wait()
		for i := range 20 {
			s.settle(id("ns", fmt.Sprint("key-", i)))
		}
		wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: 20, Uncopied: 6}})
		wantRestored(t, s.do(http.MethodPost, restoring, ""), http.StatusOK, api.Restoration{State: "over"})
	})
}

// A kill amid a restoration leaves the namespace with data loss until all of it is pending: the next restore has the rest.
func TestRestoreThatIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		on := func(fs vfs.FS) func(*journal.Options, *proxy.Options) {
			return func(stored *journal.Options, opts *proxy.Options) {
				careful(stored, opts)
				stored.FS = fs
			}
		}
		s := newSidecar(t, on(mem))
		s.lose(80)
		var clones []*vfs.MemFS
		kills := true
		s.journal.Subscribe(func(c journal.Change) {
			s.cache.Changed(c.Namespace, c.Key)
			if c.Namespace == "ns" && kills && c.Seq > 0 && c.Seq%8 == 0 {
				clones = append(clones, mem.CrashClone(vfs.CrashCloneCfg{}))
			}
		})
		wantStatus(t, s.do(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1s", ""), http.StatusGatewayTimeout)
		kills = false
		if len(clones) < 5 {
			t.Fatalf("%d kills", len(clones))
		}
		for _, fs := range clones {
			again := newSidecar(t, on(fs), func(_ *journal.Options, o *proxy.Options) { o.Upstream = s.upstream })
			again.upstream, again.flusher.upstream = s.upstream, s.upstream
			for i := range 80 {
				wantValue(t, again.get(fmt.Sprint("/memory/ns/key-", i)), fmt.Sprint("value ", i))
			}
			again.do(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1s", "")
			if n := len(again.journal.PendingList("ns", 100)); n != 80 || again.dataLoss("ns") != nil {
				t.Errorf("%d are pending, %+v", n, again.dataLoss("ns"))
			}
		}
	})
}

// Nothing is restored before upstream has said that it lacks it, and what it lists again ends the data loss.
func TestRestoreAsksFirst(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.lose(20)
		s.upstream.setDown(true)
		wantStatus(t, s.do(http.MethodPost, restoring, ""), http.StatusServiceUnavailable)
		if n := len(s.journal.PendingList("ns", 100)); n != 0 || s.dataLoss("ns") == nil {
			t.Errorf("%d are pending, %+v", n, s.dataLoss("ns"))
		}
		s.upstream.setDown(false)
		for i := range 20 {
			s.upstream.set(id("ns", fmt.Sprint("key-", i)), fmt.Sprint("value ", i))
		}
		wantRestored(t, s.do(http.MethodPost, restoring, ""), http.StatusOK, api.Restoration{State: "over"})
		if doc := s.dataLoss("ns"); doc != nil || len(s.journal.PendingList("ns", 100)) != 0 {
			t.Errorf("%+v", doc)
		}
	})
}

// An upstream that cannot list all that it holds gets back all that it does not list. The fence finds what it holds.
func TestRestoreOfMoreThanUpstreamLists(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		const entries = 1250
		s.lose(entries)
		s.upstream.most = 5
		for i := range s.upstream.most {
			s.upstream.set(id("ns", fmt.Sprint("other-", i)), "newer")
		}
		answer := s.begin(http.MethodPost, restoring, "")
		synctest.Wait()
		if n := len(s.journal.PendingList("ns", 2*entries)); n != entries || s.dataLoss("ns") != nil {
			t.Fatalf("%d are pending, %+v", n, s.dataLoss("ns"))
		}
		for i := range entries {
			s.settle(id("ns", fmt.Sprint("key-", i)))
		}
		wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: entries}})
	})
}

// A namespace whose copies take much room is restored in steps, and is not taken for restored before the last one.
func TestRestoreLeavesRoomForAgents(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		large := strings.Repeat("x", 60<<10)
		const entries = 600 // 36 MB
		for i := range entries {
			s.learn(id("ns", fmt.Sprint("key-", i)), large)
		}
		s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		s.get("/memory/ns/key-1")
		answer := s.begin(http.MethodPost, restoring, "")
		steps := 0
		for restored := 0; restored < entries; steps++ {
			synctest.Wait()
			n := len(s.journal.PendingList("ns", entries))
			if restored += n; n == 0 || n > 530 || (s.dataLoss("ns") == nil) != (restored == entries) {
				t.Fatalf("%d are pending after %d, %+v", n, restored-n, s.dataLoss("ns"))
			}
			wantRestored(t, s.do(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1s", ""), http.StatusGatewayTimeout,
				api.Restoration{State: "running", Left: n})
			s.settleAll("ns")
		}
		wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: entries}})
		if steps < 2 {
			t.Errorf("%d steps", steps)
		}
	})
}

// What agents have pending takes the room of a restoration, and is not waited for.
func TestRestoreWithoutRoom(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.lose(20)
		for i := range 280 { // 16.4 MiB
			s.put(id("ns", fmt.Sprint("other-", i)), strings.Repeat("x", 60<<10))
		}
		wantStatus(t, s.do(http.MethodPost, restoring, ""), http.StatusServiceUnavailable)
	})
}

// The list that is believed in the end is the one of which all that it lacks is restored.
func TestRestoreOfWhatIsLostMeanwhile(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 40)
		for i := range 20 {
			s.upstream.remove(id("ns", fmt.Sprint("key-", i)))
		}
		time.Sleep(2 * time.Minute)
		wantCacheStatus(t, s.get("/memory/ns/key-1"), "hit; detail=data-loss", "120")
		lists := s.upstream.hold()
		answer := s.begin(http.MethodPost, restoring, "")
		list := <-lists
		s.upstream.remove(id("ns", "key-39"))
		close(list.answer)
		s.upstream.release()
		synctest.Wait()
		s.settleAll("ns")
		wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: 21}})
		wantValue(t, s.get("/memory/ns/key-39"), "value 39")
	})
}

// A journal without room says so: nothing is restored, and the namespace still has data loss.
func TestRestoreIntoAFullJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, careful, func(stored *journal.Options, _ *proxy.Options) { stored.MaxBytes = 20 << 10 })
		s.lose(20)
		for i := 0; s.do(http.MethodPut, fmt.Sprint("/memory/other/", i), `{"value":"v"}`).Code == http.StatusOK; i++ {
		}
		wantDetail(t, s.do(http.MethodPost, restoring, ""), http.StatusInsufficientStorage, "journal.max_bytes")
		if s.dataLoss("ns") == nil {
			t.Error("no data loss")
		}
		s.settleAll("other")
		answer := s.begin(http.MethodPost, restoring, "")
		synctest.Wait()
		s.settleAll("ns")
		wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: 20}})
	})
}

// A namespace that is full upstream gets what it has room for here, and is not taken for restored before the rest has come, too.
func TestRestoreIntoAFullNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, careful, func(j *journal.Options, _ *proxy.Options) {
			j.MaxBytes, j.Full = 160_000, func(namespace string) bool { return namespace == "ns" }
		})
		const entries = 50
		s.lose(entries)
		restored := 0
		for step := 0; restored < entries; step++ {
			wantStatus(t, s.do(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1s", ""), http.StatusGatewayTimeout)
			n := len(s.journal.PendingList("ns", entries))
			if restored += n; n == 0 || step == 0 && n == entries || (s.dataLoss("ns") == nil) != (restored == entries) {
				t.Fatalf("%d are pending after %d, %+v", n, restored-n, s.dataLoss("ns"))
			}
			for i := range entries {
				wantValue(t, s.get(fmt.Sprint("/memory/ns/key-", i)), fmt.Sprint("value ", i))
			}
			s.settleAll("ns")
		}
		wantRestored(t, s.do(http.MethodPost, restoring, ""), http.StatusOK, api.Restoration{State: "over"})
	})
}

// An entry that upstream refuses becomes a dead letter, like any other write.
func TestRestoreOfWhatUpstreamRefuses(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.lose(20)
		answer := s.begin(http.MethodPost, restoring, "")
		synctest.Wait()
		w, _, err := s.journal.Newest(id("ns", "key-3"))
		noError(t, err)
		noError(t, s.journal.DeadLetter(w, journal.Failure{Status: 413, Reason: "too big"}))
		s.settleAll("ns")
		wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: 19, Failed: 1}})
	})
}

// A list that writes overtake proves nothing: upstream is asked for another one.
func TestRestoreListsAgainWhenOvertaken(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.lose(20)
		lists := s.upstream.hold()
		answer := s.begin(http.MethodPost, restoring, "")
		for range 3 {
			list := <-lists
			w, err := s.journal.Append(journal.NewWrite{ID: id("ns", "other"), Op: journal.Put, Value: "v"})
			if err == nil {
				_, err = s.journal.MarkSent(w)
			}
			if err == nil {
				err = s.journal.DeadLetter(w, journal.Failure{})
			}
			noError(t, err)
			close(list.answer)
		}
		s.upstream.release()
		synctest.Wait()
		s.settleAll("ns")
		wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: 20}})
		if doc := s.dataLoss("ns"); doc != nil {
			t.Errorf("%+v", doc)
		}
	})
}
