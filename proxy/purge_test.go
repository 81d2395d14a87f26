package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// A purge deletes upstream first, and then removes what is here. It leaves other namespaces alone, and
// entries that are written meanwhile.
func TestPurge(t *testing.T) {
	s := newSidecar(t)
	s.learn(id("n", "shown"), "by another host")
	for _, k := range []string{"a", "b"} {
		s.put(id("n", k), "old "+k)
		s.put(id("n", k), "value "+k)
		s.settle(id("n", k))
	}
	s.put(id("n", "never"), "sent")
	s.put(id("locked", "k"), "stays")
	s.settle(id("locked", "k"))
	purge := func(query string, status int) (doc api.Purged) {
		t.Helper()
		w := s.do(http.MethodPost, "/_botwired/purge?"+query, "")
		if wantStatus(t, w, status); status == http.StatusOK || status == http.StatusGatewayTimeout {
			decode(t, w, &doc)
		}
		return doc
	}
	for _, query := range []string{"", "key=k", "namespace=n&key=a%20b", "namespace=n&as_of=0", "namespace=n&all=1"} {
		purge(query, http.StatusBadRequest)
	}
	wantStatus(t, s.get("/_botwired/purge?namespace=n"), http.StatusMethodNotAllowed)

	s.upstream.setDown(true)
	wantDetail(t, s.do(http.MethodPost, "/_botwired/purge?namespace=n", ""), http.StatusServiceUnavailable, "nothing is deleted or purged")
	wantValue(t, s.get("/memory/n/a"), "value a")
	if doc := purge("namespace=n&key=never&local=true", http.StatusOK); doc.Dropped != 1 || doc.Removed.Versions != 1 || doc.Removed.DeadLetters != 1 {
		t.Errorf("of what is here: %+v", doc)
	}
	s.upstream.setDown(false)

	if doc := purge("namespace=n&key=a", http.StatusOK); !doc.Done || doc.Deleted != 1 || doc.Removed.Versions != 3 || doc.Removed.Receipts != 3 || len(doc.NotReached) < 3 {
		t.Errorf("of an entry: %+v", doc)
	}
	wantStatus(t, s.get("/memory/n/a"), http.StatusNotFound)
	wantStatus(t, s.get("/_botwired/revisions?namespace=n&key=a"), http.StatusNotFound)
	wantDetail(t, s.get("/_botwired/receipts/1"), http.StatusNotFound, "a purge")
	wantValue(t, s.get("/memory/n/b"), "value b")
	if doc := purge("namespace=n", http.StatusOK); doc.Deleted != 2 || doc.Pending != 0 {
		t.Errorf("of a namespace: %+v", doc)
	}
	for _, k := range []string{"b", "shown"} {
		if _, held := s.upstream.holds(id("n", k)); held {
			t.Errorf("upstream still holds %s", k)
		}
		wantStatus(t, s.get("/memory/n/"+k), http.StatusNotFound)
	}
	if names := s.get("/_botwired/namespaces").Body.String(); strings.Contains(names, `"n"`) || !strings.Contains(names, `"locked"`) {
		t.Errorf("the namespaces are %s", names)
	}
	if doc := purge("namespace=n&as_of=1000", http.StatusOK); doc.AsOf >= 1000 {
		t.Errorf("it takes in what is written while it runs: %+v", doc)
	}
	if doc := purge("namespace=n", http.StatusOK); doc.Deleted != 0 || doc.Removed != (api.PurgedRecords{}) {
		t.Errorf("again: %+v", doc)
	}

	s.upstream.hold()
	if doc := purge("namespace=locked&timeout=10ms", http.StatusGatewayTimeout); doc.Done || doc.Deleted != 0 || !strings.Contains(doc.Why, "in time") {
		t.Errorf("while upstream says nothing: %+v", doc)
	}
	s.upstream.release()

	s.flusher.stuck = true // until its namespace is not paused any more
	doc := purge("namespace=locked&timeout=1s", http.StatusGatewayTimeout)
	if doc.Done || doc.Deleted != 1 || doc.Waits == nil || doc.Why == "" {
		t.Errorf("while deletes wait: %+v", doc)
	}
	s.flusher.stuck = false
	s.put(id("locked", "later"), "written since")
	s.settle(id("locked", "later"))
	for _, of := range []string{"", "&key=later"} {
		if doc := purge("namespace=locked&as_of=1"+of, http.StatusOK); doc.Deleted != 0 {
			t.Errorf("with an earlier as_of%s: %+v", of, doc)
		}
	}
	wantValue(t, s.get("/memory/locked/later"), "written since")

	s.flusher.refuses = true
	wantDetail(t, s.do(http.MethodPost, "/_botwired/purge?namespace=locked", ""), http.StatusBadGateway, "dead-letters")
}

// contract 13: a purge leaves what another host writes while it runs, once it has deleted what was there before.
func TestPurgeLeavesWhatAnotherHostWritesMeanwhile(t *testing.T) {
	for _, of := range []string{"namespace=n", "namespace=n&key=k"} {
		inBubble(t, func(t *testing.T, s *sidecar) {
			s.learn(id("n", "k"), "purged")
			more := 0
			time.Sleep(time.Second)
			s.flusher.after = func() {
				time.Sleep(time.Second)
				s.upstream.set(id("n", "k"), "theirs")
				more++
				s.upstream.set(id("n", fmt.Sprint("new-", more)), "theirs")
			}
			var doc api.Purged
			w := s.do(http.MethodPost, "/_botwired/purge?"+of, "")
			wantStatus(t, w, http.StatusOK)
			if decode(t, w, &doc); !doc.Done || doc.Deleted != 1 {
				t.Errorf("of %s: %+v", of, doc)
			}
			for _, key := range []string{"k", "new-1"} {
				wantValue(t, s.get("/memory/n/"+key), "theirs")
			}
		})
	}
}

// contract 13: a purge takes what a delete that was pending before it has lost to.
func TestPurgeOfWhatAPendingDeleteLosesTo(t *testing.T) {
	for _, of := range []string{"namespace=n", "namespace=n&key=k"} {
		inBubble(t, func(t *testing.T, s *sidecar) {
			s.learn(id("n", "k"), "deleted")
			wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
			s.flusher.after = func() {
				s.flusher.after = nil
				s.upstream.set(id("n", "k"), "theirs")
			}
			var doc api.Purged
			w := s.do(http.MethodPost, "/_botwired/purge?"+of, "")
			wantStatus(t, w, http.StatusOK)
			if decode(t, w, &doc); !doc.Done || doc.Deleted != 1 {
				t.Errorf("of %s: %+v", of, doc)
			}
			if value, held := s.upstream.holds(id("n", "k")); held {
				t.Errorf("of %s: upstream still holds %s", of, value)
			}
			wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
		})
	}
}

// contract 3, 13: a purge for whose deletes the journal has no room says so, and asks upstream for no more lists.
func TestPurgeInAFullJournal(t *testing.T) {
	for _, of := range []string{"namespace=n", "namespace=n&key=k"} {
		s := newSidecar(t, func(j *journal.Options, _ *proxy.Options) { j.MaxBytes = 10_000 })
		s.learn(id("n", "k"), "stays")
		for i := 0; s.do(http.MethodPut, fmt.Sprint("/memory/other/", i), putBody("waits")).Code == http.StatusOK; i++ {
		}
		s.upstream.take()
		wantDetail(t, s.do(http.MethodPost, "/_botwired/purge?timeout=1s&"+of, ""), http.StatusInsufficientStorage, "journal.max_bytes")
		if asked := s.upstream.take(); len(asked) > 2 {
			t.Errorf("of %s: upstream was asked %d times", of, len(asked))
		}
	}
}

// contract 13: a purge that goes on leaves what was written since it began, of one entry too: also in a namespace that
// writes through, and with pending writes that it drops.
func TestPurgeLeavesWhatIsWrittenSince(t *testing.T) {
	for _, of := range []string{"namespace=through", "namespace=through&key=k", "namespace=n&local=true", "namespace=n&key=k&local=true"} {
		t.Run(of, func(t *testing.T) {
			s := newSidecar(t, writesThrough)
			for _, value := range []string{"old", "written since"} {
				for _, namespace := range []string{"n", "through"} {
					s.put(id(namespace, "k"), value)
				}
			}
			var doc api.Purged
			w := s.do(http.MethodPost, "/_botwired/purge?as_of=2&"+of, "")
			wantStatus(t, w, http.StatusOK)
			if decode(t, w, &doc); doc.Deleted != 0 || doc.Dropped != 0 {
				t.Errorf("it takes in a later write: %+v", doc)
			}
			wantValue(t, s.get("/memory/"+doc.Namespace+"/k"), "written since")
		})
	}
}

// A purge waits until the daemon has read its journal: only then it knows all pending writes.
func TestPurgeWhileTheJournalIsRead(t *testing.T) {
	restarted(t, func(s *sidecar) {
		w := s.do(http.MethodPost, "/_botwired/purge?namespace=n&local=true&timeout=1s", "")
		wantStatus(t, w, http.StatusGatewayTimeout)
		if !strings.Contains(w.Body.String(), "still being read") {
			t.Error(w.Body)
		}
	}, func(s *sidecar, again bool) {
		if again {
			wantStatus(t, s.do(http.MethodPost, "/_botwired/purge?namespace=n&local=true", ""), http.StatusOK)
		}
	})
}
