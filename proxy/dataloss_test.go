package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// careful sets a journal's limits to the defaults.
func careful(stored *journal.Options, _ *proxy.Options) {
	stored.LossLimit = journal.UsualLossLimit
}

// inCarefulBubble is inBubble with such a journal.
func inCarefulBubble(t *testing.T, test func(*testing.T, *sidecar)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newSidecar(t, careful)) })
}

// learnMany makes upstream hold entries that the daemon knows as settled.
func (s *sidecar) learnMany(namespace string, n int) {
	s.t.Helper()
	for i := range n {
		s.learn(id(namespace, fmt.Sprint("key-", i)), fmt.Sprint("value ", i))
	}
}

// wipe makes upstream lose everything.
func (u *fakeUpstream) wipe() map[journal.ID]journal.Observation {
	u.mu.Lock()
	defer u.mu.Unlock()
	lost := u.entries
	u.entries = make(map[journal.ID]journal.Observation)
	return lost
}

func (u *fakeUpstream) bringBack(entries map[journal.ID]journal.Observation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.entries = entries
}

func wantCacheStatus(t *testing.T, w interface{ Header() http.Header }, want, age string) {
	t.Helper()
	if got := w.Header().Get("Cache-Status"); got != "botwired; "+want {
		t.Errorf("Cache-Status: %s, want %s", got, want)
	}
	if got := w.Header().Get("Age"); got != age {
		t.Errorf("Age: %s, want %s", got, age)
	}
}

// dataLoss returns the namespace's data loss in the status.
func (s *sidecar) dataLoss(namespace string) *api.DataLoss {
	s.t.Helper()
	var doc struct {
		Namespaces []struct {
			Namespace string        `json:"namespace"`
			DataLoss  *api.DataLoss `json:"data_loss"`
		} `json:"namespaces"`
	}
	decode(s.t, s.get("/_botwired/status"), &doc)
	for _, n := range doc.Namespaces {
		if n.Namespace == namespace {
			return n.DataLoss
		}
	}
	return nil
}

// Upstream has lost all of 500 entries. All of them can be read, marked as lost, and upstream is asked for
// its list once. It gets back what it has lost, but nothing that another host had deleted before.
func TestUpstreamIsWiped(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 502)
		gone := []journal.ID{id("ns", "key-500"), id("ns", "key-501")} // deleted by another host, as far as is known
		for _, each := range gone {
			s.upstream.remove(each)
			wantStatus(t, s.get("/memory/"+each.String(), "Cache-Control", "no-cache"), http.StatusNotFound)
		}
		wantStatus(t, s.get("/memory/ns?limit=1000"), http.StatusOK)
		lost := s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		s.readAllOfTheLost(500)
		s.put(id("ns", "key-7"), "newer") // writes and deletes go on
		wantStatus(t, s.do(http.MethodDelete, "/memory/ns/key-8", ""), http.StatusOK)
		s.upstream.set(id("ns", "key-1"), "another host's")
		s.settle(id("ns", "key-8"))
		doc := s.restoreAll("ns", 498)
		if doc.State != "over" || doc.Restored != 497 || doc.Left != 0 {
			t.Errorf("%+v", doc)
		}
		want := make(map[string]string)
		for each, o := range lost {
			want[each.Key] = o.Value
		}
		want["key-7"], want["key-1"] = "newer", "another host's"
		delete(want, "key-8")
		held := make(map[string]string)
		for each, o := range s.upstream.wipe() {
			held[each.Key] = o.Value
		}
		if diff := cmp.Diff(want, held); diff != "" {
			t.Error(diff)
		}
		if suspect := s.dataLoss("ns"); suspect != nil {
			t.Errorf("still there: %+v", suspect)
		}
	})
}

// readAllOfTheLost reads entries that upstream has lost, two minutes after they were confirmed.
func (s *sidecar) readAllOfTheLost(n int) {
	s.t.Helper()
	s.upstream.take()
	for i := range n {
		w := s.get(fmt.Sprint("/memory/ns/key-", i))
		wantValue(s.t, w, fmt.Sprint("value ", i))
		wantCacheStatus(s.t, w, "hit; detail=data-loss", "120")
	}
	lists := 0
	for _, q := range s.upstream.take() {
		if q.ID.Key == "" {
			lists++
		}
	}
	if lists != 1 {
		s.t.Errorf("%d LISTs", lists)
	}
	w := s.get("/memory/ns?limit=1000")
	wantCacheStatus(s.t, w, "hit; detail=data-loss", "120")
	if listed := strings.Count(w.Body.String(), `"key"`); listed != n {
		s.t.Errorf("%d keys are listed", listed)
	}
	want := &api.DataLoss{Since: time.Now().UTC(), Missing: n, Of: n}
	if diff := cmp.Diff(want, s.dataLoss("ns")); diff != "" {
		s.t.Error(diff)
	}
}

// restoreAll restores a namespace. That many writes become pending.
func (s *sidecar) restoreAll(namespace string, writes int) (doc api.Restoration) {
	s.t.Helper()
	restoring := s.begin(http.MethodPost, "/_botwired/restore?namespace="+namespace, "")
	for settled := 0; settled < writes; {
		synctest.Wait()
		waiting := s.journal.PendingList(namespace, 1000)
		if len(waiting) != writes {
			s.t.Fatalf("%d writes are pending", len(waiting))
		}
		for _, p := range waiting {
			w, _, err := s.journal.Newest(p.ID)
			if own := p.Key == "key-7"; err != nil || (w.LosesTies && w.Fenced && w.WrittenAt == beforeAll) == own {
				s.t.Errorf("%+v, %v", w, err)
			}
			s.settle(p.ID)
			settled++
		}
	}
	done := <-restoring
	wantStatus(s.t, done, http.StatusOK)
	decode(s.t, done, &doc)
	return doc
}

// contract 9: what upstream loses of a namespace is gone here, too, to the history, from which a person brings it back. If it
// is 10 and half of them, the copies answer.
func TestWhatUpstreamLoses(t *testing.T) {
	for _, c := range []struct {
		of, lost int
		believed bool
	}{{100, 3, true}, {100, 60, false}, {100, 100, false}, {5, 5, true}} {
		t.Run(fmt.Sprint(c.lost, " of ", c.of), func(t *testing.T) {
			inCarefulBubble(t, func(t *testing.T, s *sidecar) {
				s.learnMany("ns", c.of)
				for i := range c.lost {
					s.upstream.remove(id("ns", fmt.Sprint("key-", i)))
				}
				time.Sleep(2 * time.Minute)
				for i := range c.lost {
					w := s.get(fmt.Sprint("/memory/ns/key-", i))
					if c.believed {
						wantStatus(t, w, http.StatusNotFound)
					} else {
						wantValue(t, w, fmt.Sprint("value ", i))
						wantCacheStatus(t, w, "hit; detail=data-loss", "120")
					}
				}
				if lost := s.dataLoss("ns"); (lost == nil) != c.believed {
					t.Errorf("%+v", lost)
				}
				if !c.believed {
					return
				}
				gone := id("ns", "key-1")
				s.wantStates(gone, "shown  delete", "gone  put value 1")
				wantStatus(t, s.undo(gone, ""), http.StatusOK)
				wantValue(t, s.get("/memory/ns/key-1"), "value 1")
				for key, pending := range map[string]bool{"key-0": true, "key-1": false, fmt.Sprint("key-", c.of-1): c.of == c.lost, "none": false} {
					if pending { // the same request may come again
						wantRestored(t, s.do(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1s&key="+key, ""), http.StatusGatewayTimeout,
							api.Restoration{State: "running", Left: 1})
					}
					answer := s.begin(http.MethodPost, restoring+"&key="+key, "")
					synctest.Wait()
					if w, ok, err := s.journal.Newest(id("ns", key)); ok && key != "key-1" {
						if err != nil || !pending || !w.Fenced || w.Over == nil || w.Over.Present || w.Value != "value "+key[4:] {
							t.Errorf("%s: %+v, %v", key, w, err)
						}
						s.settle(id("ns", key))
					} else if pending {
						t.Errorf("%s is not restored", key)
					}
					restored := map[bool]int{true: 1}[pending]
					wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: restored}})
				}
				wantStatus(t, s.do(http.MethodDelete, "/memory/ns/key-0", ""), http.StatusOK)
				s.settle(id("ns", "key-0"))
				wantRestored(t, s.do(http.MethodPost, restoring+"&key=key-0", ""), http.StatusOK, api.Restoration{State: "over"}) // it was deleted here
			})
		})
	}
}

// An entry that was gone before its namespace had data loss comes back by its key, too.
func TestWhatWasGoneBeforeADataLoss(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 100)
		s.upstream.remove(id("ns", "key-0"))
		time.Sleep(2 * time.Minute)
		wantStatus(t, s.get("/memory/ns/key-0"), http.StatusNotFound)
		s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		wantCacheStatus(t, s.get("/memory/ns/key-1"), "hit; detail=data-loss", "240")
		for _, key := range []string{"key-0", "key-1"} {
			answer := s.begin(http.MethodPost, restoring+"&key="+key, "")
			synctest.Wait()
			s.settleAll("ns")
			wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: 1}})
		}
	})
}

// A write that upstream has refused does not hide what is gone of its entry.
func TestWhatIsGoneBehindADeadLetter(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 5)
		gone := id("ns", "key-0")
		s.put(gone, "refused")
		w, _, err := s.journal.Newest(gone)
		noError(t, err)
		noError(t, s.journal.DeadLetter(w, journal.Failure{Status: 413, Reason: "too large"}))
		s.upstream.remove(gone)
		time.Sleep(2 * time.Minute)
		wantStatus(t, s.get("/memory/ns/key-0"), http.StatusNotFound)
		answer := s.begin(http.MethodPost, restoring+"&key=key-0", "")
		synctest.Wait()
		s.settleAll("ns")
		wantRestored(t, <-answer, http.StatusOK, api.Restoration{State: "over", RestoreCounts: api.RestoreCounts{Restored: 1}})
		wantValue(t, s.get("/memory/ns/key-0"), "value 0")
	})
}

// While an answer is fresh, upstream is not asked again for what it has lost.
func TestSuspectCopiesAnswerFromMemory(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 20)
		s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		s.get("/memory/ns/key-1")
		s.upstream.take()
		s.cache.Await()
		w := s.get("/memory/ns/key-1")
		wantValue(t, w, "value 1")
		wantCacheStatus(t, w, "hit; detail=data-loss", "120")
		if asked := s.upstream.take(); len(asked) != 0 {
			t.Errorf("asked %v", asked)
		}
		time.Sleep(usual.FreshFor)
		wantCacheStatus(t, s.get("/memory/ns/key-1"), "hit; detail=data-loss", "130")
		wantCacheStatus(t, s.get("/memory/ns/key-1", "Cache-Control", "no-cache"), "hit; detail=data-loss", "130")
		if asked := s.upstream.take(); len(asked) != 2 {
			t.Errorf("asked %v", asked)
		}
	})
}

// Another host's delete is accepted once upstream's list shows it too. All waiting readers share one list.
func TestAnAbsenceIsCheckedAgainstTheList(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 5)
		s.upstream.remove(id("ns", "key-3"))
		time.Sleep(2 * time.Minute)
		s.upstream.take()
		wantStatus(t, s.get("/memory/ns/key-3"), http.StatusNotFound)
		want := []question{{ID: id("ns", "key-3")}, {ID: id("ns", "")}, {ID: id("ns", "key-3")}}
		if diff := cmp.Diff(want, s.upstream.take(), cmp.Comparer(func(a, b question) bool { return a.ID == b.ID })); diff != "" {
			t.Error(diff)
		}
		if _, suspect := s.journal.Trust.Suspect("ns"); suspect {
			t.Error("suspect")
		}
		wantValue(t, s.get("/memory/ns/key-2"), "value 2")
	})
}

// Contract 6, 8: a write that comes while the list is asked for is the answer.
func TestAWriteAmidTheListOfAnAbsence(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 5)
		s.upstream.remove(id("ns", "key-3"))
		time.Sleep(2 * time.Minute)
		held := s.upstream.hold()
		reader := s.begin(http.MethodGet, "/memory/ns/key-3", "")
		close((<-held).answer)
		list := <-held
		s.put(id("ns", "key-3"), "mine")
		close(list.answer)
		s.upstream.release()
		wantValue(t, <-reader, "mine")
	})
}

// Without the list the question stays open, and the copy is the answer.
func TestAnAbsenceWhoseListFails(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 5)
		s.upstream.remove(id("ns", "key-3"))
		time.Sleep(2 * time.Minute)
		reader, held := s.asking("/memory/ns/key-3")
		s.upstream.setDown(true)
		s.upstream.release()
		close(held.answer)
		w := <-reader
		wantValue(t, w, "value 3")
		wantCacheStatus(t, w, "hit; detail=stale-if-error", "120")
		s.upstream.setDown(false)
		s.upstream.noLists = unavailable{time.Second} // a server that answers everything with 404 has no list
		w = s.get("/memory/ns/key-3")
		wantValue(t, w, "value 3")
		wantCacheStatus(t, w, "hit; detail=stale-if-error", "120")
		s.upstream.noLists = nil
		wantStatus(t, s.get("/memory/ns/key-3"), http.StatusNotFound)
	})
}

// If the list shows an entry that upstream's 404 denies, no reader goes back.
func TestUpstreamContradictsItself(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 5)
		s.upstream.lies = true
		time.Sleep(2 * time.Minute)
		w := s.get("/memory/ns/key-3")
		wantValue(t, w, "value 3")
		wantCacheStatus(t, w, "hit; detail=older-answer", "120")
		s.upstream.lies = false
		time.Sleep(usual.FreshFor)
		wantCacheStatus(t, s.get("/memory/ns/key-3"), "fwd=stale", "")
	})
}

// contract 7: a lagging replica moves no reader back.
func TestAnOlderAnswerMovesNoReaderBack(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		a := id("ns", "a")
		s.learn(a, "1")
		old := s.upstream.wipe()
		s.upstream.set(a, "2")
		wantValue(t, s.get("/memory/ns/a", "Cache-Control", "no-cache"), "2")
		fresh := s.upstream.wipe()
		s.upstream.bringBack(old)
		time.Sleep(5 * time.Second)
		w := s.get("/memory/ns/a", "Cache-Control", "no-cache")
		wantValue(t, w, "2")
		wantCacheStatus(t, w, "hit; detail=older-answer", "5")
		time.Sleep(time.Hour)
		s.policy.StaleIfError = 0 // upstream is up, so the copy answers even without it
		s.policy.StaleWhileRevalidate = 0
		w = s.get("/memory/ns/a")
		wantValue(t, w, "2")
		wantCacheStatus(t, w, "hit; detail=older-answer", "3605")
		if n := strings.Count(s.log.String(), "older state"); n != 2 { // an hour apart
			t.Errorf("%d lines in the log", n)
		}
		if body := s.get("/_botwired/status").Body.String(); !strings.Contains(body, `"older_answers":2`) {
			t.Error(body)
		}
		if body := s.get("/_botwired/metrics").Body.String(); !strings.Contains(body, "botwired_older_answers_total 2") {
			t.Error("the metric is not there")
		}
		s.upstream.bringBack(fresh)
		time.Sleep(usual.FreshFor)
		w = s.get("/memory/ns/a")
		wantValue(t, w, "2")
		wantCacheStatus(t, w, "fwd=stale", "")
	})
}

// A person may accept upstream's state: the missing entries go.
func TestForget(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 20)
		s.upstream.wipe()
		s.upstream.set(id("ns", "key-2"), "still there")
		time.Sleep(2 * time.Minute)
		wantCacheStatus(t, s.get("/memory/ns/key-1"), "hit; detail=data-loss", "120")
		wantStatus(t, s.do(http.MethodPost, "/_botwired/forget", ""), http.StatusBadRequest)
		s.upstream.setDown(true)
		wantStatus(t, s.do(http.MethodPost, "/_botwired/forget?namespace=ns", ""), http.StatusServiceUnavailable)
		s.upstream.setDown(false)
		w := s.do(http.MethodPost, "/_botwired/forget?namespace=ns", "")
		wantStatus(t, w, http.StatusOK)
		if got := strings.TrimSpace(w.Body.String()); got != `{"forgotten":19,"namespace":"ns","upstream_holds":1}` {
			t.Error(got)
		}
		wantStatus(t, s.get("/memory/ns/key-1"), http.StatusNotFound)
		wantValue(t, s.get("/memory/ns/key-2"), "still there")
		if suspect := s.dataLoss("ns"); suspect != nil {
			t.Errorf("%+v", suspect)
		}
	})
}

// The suspicion ends by itself once upstream shows everything again, as after a wrong URL.
func TestUpstreamIsBack(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.learnMany("ns", 20)
		lost := s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		s.get("/memory/ns/key-1")
		if s.dataLoss("ns") == nil {
			t.Fatal("not suspect")
		}
		s.run()
		time.Sleep(time.Hour) // nobody uses it
		s.upstream.bringBack(lost)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if suspect := s.dataLoss("ns"); suspect != nil {
			t.Errorf("%+v", suspect)
		}
		for i := range 20 {
			wantValue(t, s.get(fmt.Sprint("/memory/ns/key-", i)), fmt.Sprint("value ", i))
		}
	})
}

// A caller's own delete is accepted, even in a suspect write-through namespace.
func TestADeleteThroughInASuspectNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, careful, func(_ *journal.Options, o *proxy.Options) { o.WriteThrough = func(string) bool { return true } })
		s.learnMany("ns", 20)
		s.upstream.wipe()
		time.Sleep(2 * time.Minute)
		wantCacheStatus(t, s.get("/memory/ns/key-1"), "hit; detail=data-loss", "120")
		wantHeader(t, s.do(http.MethodDelete, "/memory/ns/key-1", ""), "Botwired-Write", "settled; seq=21")
		wantStatus(t, s.get("/memory/ns/key-1"), http.StatusNotFound)
	})
}

// A caller whose time is up before upstream has listed the namespace is told so, and to come back.
func TestUpstreamDoesNotListInTime(t *testing.T) {
	for _, target := range []string{"restore?namespace=n&timeout=0", "restore?namespace=n&timeout=2s", "forget?namespace=n"} {
		inBubble(t, func(t *testing.T, s *sidecar) {
			s.upstream.hold() // and nobody takes the question
			w := s.do(http.MethodPost, "/_botwired/"+target, "")
			wantDetail(t, w, http.StatusServiceUnavailable, "upstream is unavailable")
			wantHeader(t, w, "Retry-After", "1")
			s.upstream.release()
		})
	}
}
