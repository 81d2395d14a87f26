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

// lose makes the daemon know 20 entries, and notice that upstream has lost them.
func (s *sidecar) lose() {
	s.t.Helper()
	s.learnMany("ns", 20)
	s.upstream.wipe()
	time.Sleep(2 * time.Minute)
	wantCacheStatus(s.t, s.get("/memory/ns/key-1"), "hit; detail=data-loss", "120")
}

// refuse has upstream refuse the newest write to an entry.
func (s *sidecar) refuse(id journal.ID) {
	s.t.Helper()
	w, _, err := s.journal.Newest(id)
	if err == nil {
		err = s.journal.DeadLetter(w, journal.Failure{Status: 413, Reason: "too big"})
	}
	noError(s.t, err)
}

// If upstream cannot list all its entries, it is asked for an entry before that is given back.
func TestRestoreAsksForWhatTheListMayLack(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.lose()
		if err := s.journal.Trust.SetRestoring("ns", true); err != nil {
			t.Fatal(err)
		}
		s.upstream.set(id("ns", "key-9"), "another host's")
		s.upstream.most = 5
		for i := range s.upstream.most {
			s.upstream.set(id("ns", fmt.Sprint("other-", i)), "newer")
		}
		restoring := s.begin(http.MethodPost, "/_botwired/restore?namespace=ns", "")
		synctest.Wait()
		s.settleAll("ns")
		var doc api.Restoration
		decode(t, <-restoring, &doc)
		if doc.State != "over" || doc.Restored != 19 {
			t.Errorf("%+v", doc)
		}
		if value, _ := s.upstream.holds(id("ns", "key-9")); value != "another host's" {
			t.Errorf("upstream holds %q", value)
		}
	})
}

// An entry that upstream refuses becomes a dead letter, and is not given back again.
func TestRestoreOfWhatUpstreamRefuses(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.lose()
		restoring := s.begin(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1h", "")
		synctest.Wait()
		for _, p := range s.journal.PendingList("ns", 100) {
			if p.Key != "key-3" {
				s.settle(p.ID)
				continue
			}
			s.refuse(p.ID)
		}
		var doc api.Restoration
		decode(t, <-restoring, &doc)
		if doc.State != "over" || doc.Restored != 19 || doc.Failed != 1 || doc.Left != 1 {
			t.Errorf("%+v", doc)
		}
		wantValue(t, s.get("/memory/ns/key-3"), "value 3")
	})
}

// A list that writes overtake proves nothing: the restoration lists again, and is not over before.
func TestRestoreListsAgainWhenOvertaken(t *testing.T) {
	inCarefulBubble(t, func(t *testing.T, s *sidecar) {
		s.lose()
		restoring := s.begin(http.MethodPost, "/_botwired/restore?namespace=ns&timeout=1h", "")
		synctest.Wait()
		lists := s.upstream.hold()
		s.settleAll("ns")
		for range 3 {
			var list *question
			select {
			case list = <-lists:
			case w := <-restoring:
				s.upstream.release()
				t.Fatalf("it ended with an overtaken list: %s", w.Body)
			}
			w, err := s.journal.Append(journal.NewWrite{ID: id("ns", "other"), Op: journal.Put, Value: "v"})
			if err == nil {
				_, err = s.journal.MarkSent(w)
			}
			if err == nil {
				err = s.journal.DeadLetter(w, journal.Failure{})
			}
			if err != nil {
				t.Fatal(err)
			}
			close(list.answer)
		}
		s.upstream.release()
		var doc api.Restoration
		decode(t, <-restoring, &doc)
		if doc.State != "over" || doc.Restored != 20 || doc.Left != 0 || s.dataLoss("ns") != nil {
			t.Errorf("%+v", doc)
		}
	})
}
