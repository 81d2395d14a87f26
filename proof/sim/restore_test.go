package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// lose makes the service lose some entries, as another host's delete or a lost disk does.
func (s *service) lose(ids ...journal.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.entries, id)
	}
}

// restore has a namespace restored, and waits for so long. left is how many entries upstream does not have then.
func (w *world) restore(namespace string, wait time.Duration) (doc api.Restoration, err error) {
	r := w.node.do(http.MethodPost, "/_botwired/restore?namespace="+namespace+"&timeout="+wait.String(), "", "Accept", "*/*")
	if r.Code != http.StatusOK && r.Code != http.StatusGatewayTimeout {
		return doc, fmt.Errorf("a restore was answered %d %s", r.Code, r.Body)
	}
	return doc, json.Unmarshal(r.Body.Bytes(), &doc)
}

// A service that is wiped still answers all of 200 entries, and gets them back within its quota of 60 writes a minute,
// though the daemon is killed twice in the middle: with what it was given meanwhile, and without what was deleted before and
// since (contract 9).
func TestAWipedServiceGetsItsEntriesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(quota.Limit{Writes: 60, Period: time.Minute}, func(with *settings) {
			with.lists, with.losses = true, journal.UsualLossLimit
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := w.close(); err != nil {
				t.Error(err)
			}
		}()
		const namespace = "chats"
		id := func(i int) journal.ID { return journal.ID{Namespace: namespace, Key: fmt.Sprint("key-", i)} }
		do := func(method string, i int, body string, code int) string {
			t.Helper()
			r := w.node.do(method, "/memory/"+id(i).String(), body, "Cache-Control", "no-cache")
			if r.Code != code {
				t.Fatalf("%s %d: %d %s", method, i, r.Code, r.Body)
			}
			return r.Header().Get("Cache-Status")
		}
		want := make(map[journal.ID]string)
		for i := range 210 {
			do(http.MethodPut, i, `{"value":"value"}`, http.StatusOK)
			want[id(i)] = "value"
		}
		time.Sleep(10 * time.Minute)
		for i := range 5 { // deleted here, and by another host
			do(http.MethodDelete, 200+i, "", http.StatusOK)
			w.up.lose(id(205 + i))
			do(http.MethodGet, 205+i, "", http.StatusNotFound)
			delete(want, id(200+i))
			delete(want, id(205+i))
		}
		time.Sleep(10 * time.Minute)
		if diff := cmp.Diff(want, w.up.snapshot()); diff != "" {
			t.Fatalf("before the loss (-want +got):\n%s", diff)
		}
		w.up.forget()
		w.up.foreign(id(7), "theirs", state{true, "value"}, false)
		for i := range 200 {
			if got := do(http.MethodGet, i, "", http.StatusOK); i != 7 && got != "botwired; hit; detail=data-loss" {
				t.Fatalf("%d: %s", i, got)
			}
		}
		want[id(7)] = "theirs"
		do(http.MethodDelete, 9, "", http.StatusOK)
		delete(want, id(9))
		for _, wait := range []time.Duration{20 * time.Second, 90 * time.Second} {
			if _, err := w.restore(namespace, wait); err != nil {
				t.Fatal(err)
			}
			if len(w.up.snapshot()) >= len(want) {
				t.Fatal("it was over before the kill")
			}
			if violation := w.crash(w.clone(step{percent: 0})); violation != "" {
				t.Fatal(violation)
			}
			for i := range 200 {
				if i != 9 {
					do(http.MethodGet, i, "", http.StatusOK)
				}
			}
		}
		if _, err := w.restore(namespace, time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if diff := cmp.Diff(want, w.up.snapshot()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if doc, err := w.restore(namespace, time.Second); err != nil || doc.State != "over" || doc.Restored != 0 || doc.Left != 0 {
			t.Errorf("once more: %+v, %v", doc, err)
		}
		// What another host had deleted comes back by its key, if nobody has written it again.
		w.up.foreign(id(206), "theirs", state{}, false)
		for i, kept := range map[int]string{205: "value", 206: "theirs"} {
			doc, err := w.restore(fmt.Sprint(namespace, "&key=key-", i), time.Minute)
			if got := w.up.snapshot()[id(i)]; err != nil || doc.State != "over" || doc.Restored+doc.Kept != 1 || (doc.Kept == 1) != (kept == "theirs") || got != kept {
				t.Errorf("%d: %+v, %v: upstream holds %q", i, doc, err, got)
			}
		}
		if err := w.up.violation(); err != nil {
			t.Error(err)
		}
	})
}
