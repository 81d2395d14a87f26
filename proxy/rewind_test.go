package proxy_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
)

// rewinding is a namespace n that an agent has written since a time.
type rewinding struct {
	*sidecar
	before string
}

// wreck returns a sidecar whose entries a to e were written, and changed or deleted since. new is new.
func wreck(t *testing.T) *rewinding {
	s := newSidecar(t)
	wantStatus(t, s.get("/memory/n"), http.StatusOK) // the listing is complete
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		s.by("good", key, "good "+key)
		if key != "e" {
			s.settle(id("n", key))
		}
	}
	time.Sleep(time.Minute)
	r := &rewinding{s, strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)}
	time.Sleep(time.Minute)
	s.upstream.setDown(true)
	for _, key := range []string{"a", "b", "e", "new"} {
		s.by("agent", key, "bad")
	}
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/c", "", "Botwired-Author", "agent"), http.StatusOK)
	return r
}

func (s *sidecar) by(author, key, value string) {
	s.t.Helper()
	wantStatus(s.t, s.do(http.MethodPut, "/memory/n/"+key, `{"value":"`+value+`"}`, "Botwired-Author", author), http.StatusOK)
}

func (r *rewinding) preview(more string) (doc api.Rewind) {
	r.t.Helper()
	w := r.get("/_botwired/undo/namespace?namespace=n&before=" + r.before + more)
	wantStatus(r.t, w, http.StatusOK)
	decode(r.t, w, &doc)
	return doc
}

func (r *rewinding) undo(asOf uint64, more string) (doc api.Rewound) {
	r.t.Helper()
	w := r.do(http.MethodPost, fmt.Sprint("/_botwired/undo/namespace?namespace=n&before=", r.before, "&as_of=", asOf, more), "")
	wantStatus(r.t, w, http.StatusOK)
	decode(r.t, w, &doc)
	return doc
}

func (r *rewinding) wantAll() {
	r.t.Helper()
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		wantValue(r.t, r.get("/memory/n/"+key), "good "+key)
	}
	wantStatus(r.t, r.get("/memory/n/new"), http.StatusNotFound)
}

func counts(restored, deleted, same, left int, entries ...api.LeftEntry) api.RewindCounts {
	if entries == nil {
		entries = []api.LeftEntry{}
	}
	return api.RewindCounts{Restored: restored, Deleted: deleted, Same: same, Left: left, LeftEntries: entries}
}

func wantCounts(t *testing.T, got, want api.RewindCounts) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// In an outage, one undo brings a namespace back, the same request again finds nothing to do, and an undo of
// the undo brings the wreck back.
func TestRewind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := wreck(t)
		seen := r.preview("")
		wantCounts(t, seen.RewindCounts, counts(4, 1, 0, 0))
		if seen.Author == nil || *seen.Author != "agent" || len(seen.Changes) != 5 {
			t.Errorf("%+v", seen)
		}
		time.Sleep(time.Second)
		wrecked := strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)
		time.Sleep(time.Second)
		wantCounts(t, r.undo(seen.AsOf, "&author=agent").RewindCounts, counts(4, 1, 0, 0))
		r.wantAll()
		again := r.undo(seen.AsOf, "&author=agent").RewindCounts
		wantCounts(t, again, counts(0, 0, 5, 0))
		undone := &rewinding{r.sidecar, wrecked}
		seen = undone.preview("&all_authors=true")
		wantCounts(t, undone.undo(seen.AsOf, "&all_authors=true").RewindCounts, counts(4, 1, 0, 0))
		for _, key := range []string{"a", "b", "e", "new"} {
			wantValue(t, r.get("/memory/n/"+key), "bad")
		}
		wantStatus(t, r.get("/memory/n/c"), http.StatusNotFound)
	})
}

// An entry that somebody changes between the preview and the undo is left and named, and so is one that
// others have written since.
func TestRewindLeavesWhatOthersWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := wreck(t)
		seen := r.preview("")
		r.by("agent", "a", "later")
		r.by("other", "b", "later")
		r.by("other", "x", "unread")
		left := []api.LeftEntry{{Key: "a", Why: "it was written after the preview"}, {Key: "b", Why: "it was written after the preview"}, {Key: "x", Why: "it was written after the preview"}}
		wantCounts(t, r.undo(seen.AsOf, "&author=agent").RewindCounts, counts(2, 1, 0, 3, left...))
		wantValue(t, r.get("/memory/n/a"), "later")
		wantDetail(t, r.get("/_botwired/undo/namespace?namespace=n&before="+r.before), http.StatusConflict,
			"several programs have written entries of n since: agent (2), other (2)")
		seen = r.preview("&author=agent")
		if seen.Restored != 1 || seen.Left != 2 || seen.LeftEntries[0] != (api.LeftEntry{Key: "b", Why: "other has written it since"}) {
			t.Errorf("%+v", seen.RewindCounts)
		}
		seen = r.preview("&all_authors=true")
		if diff := cmp.Diff(map[string]int{"agent": 2, "other": 2}, seen.Authors); diff != "" {
			t.Error(diff)
		}
		r.undo(seen.AsOf, "&all_authors=true")
		r.wantAll()
		wantStatus(t, r.get("/memory/n/x"), http.StatusNotFound)
	})
}

// What another host has written meanwhile stays, even if only the undo finds out.
func TestRewindFindsAnotherHostsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t)
		k := id("n", "k")
		s.by("good", "k", "good")
		s.settle(k)
		r := &rewinding{s, strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)}
		time.Sleep(time.Minute)
		s.by("agent", "k", "bad")
		s.settle(k)
		seen := r.preview("")
		time.Sleep(24 * time.Hour)
		s.upstream.set(k, "theirs")
		done := r.undo(seen.AsOf, "&author=agent")
		if done.Left != 1 || done.Restored != 0 {
			t.Errorf("%+v", done)
		}
		wantValue(t, s.get("/memory/n/k", "Cache-Control", "no-cache"), "theirs")
		seen = r.preview("&author=agent")
		left := api.LeftEntry{Key: "k", Why: "another host has written it since"}
		wantCounts(t, seen.RewindCounts, counts(0, 0, 0, 1, left))
		wantCounts(t, r.undo(seen.AsOf, "&author=agent").RewindCounts, counts(0, 0, 0, 1, left))
		wantCounts(t, r.undo(seen.AsOf, "&all_authors=true").RewindCounts, counts(1, 0, 0, 0))
		wantValue(t, s.get("/memory/n/k"), "good")
	})
}

// What the versions here do not tell, upstream is asked for: it may still hold what was there, hold nothing yet, or have
// created the entry since. While it cannot be asked, such entries are left.
func TestRewindAsksUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t)
		s.upstream.clock = float64(time.Now().Unix())
		for _, key := range []string{"gone", "landed-over", "over"} {
			s.upstream.set(id("n", key), "theirs")
		}
		time.Sleep(time.Minute)
		r := &rewinding{s, strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)}
		time.Sleep(time.Minute)
		s.upstream.clock = float64(time.Now().Unix())
		s.upstream.setDown(true)
		for _, key := range []string{"by-both", "landed", "landed-over", "new", "over"} {
			s.by("agent", key, "bad")
		}
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/gone", "", "Botwired-Author", "agent"), http.StatusOK)
		for _, key := range []string{"landed", "landed-over"} {
			s.settle(id("n", key))
			s.upstream.set(id("n", key), "bad")
		}
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/again", "", "Botwired-Author", "agent"), http.StatusOK)
		s.settle(id("n", "again"))
		s.by("agent", "again", "bad")
		s.upstream.mu.Lock()
		over := s.upstream.entries[id("n", "landed-over")]
		over.CreatedAt -= 120
		s.upstream.entries[id("n", "landed-over")] = over
		s.upstream.mu.Unlock()
		s.upstream.set(id("n", "by-both"), "theirs")
		seen := r.preview("&author=agent")
		if seen.Left != 7 || !strings.Contains(seen.LeftEntries[6].Why, "upstream could not be asked: upstream is unavailable") {
			t.Errorf("%+v", seen.RewindCounts)
		}
		s.upstream.setDown(false)
		left := []api.LeftEntry{
			{Key: "again", Why: "it was overwritten unread, or is new: botwired does not know what was here before"},
			{Key: "by-both", Why: "another host has written it since"},
			{Key: "landed-over", Why: "it was overwritten unread, or is new: botwired does not know what was here before"},
		}
		seen = r.preview("")
		wantCounts(t, seen.RewindCounts, counts(2, 2, 0, 3, left...))
		wantCounts(t, r.undo(seen.AsOf, "&author=agent").RewindCounts, counts(2, 2, 0, 3, left...))
		wantCounts(t, r.undo(seen.AsOf, "&author=agent").RewindCounts, counts(0, 0, 4, 3, left...))
		for key, value := range map[string]string{"over": "theirs", "gone": "theirs", "by-both": "bad", "landed-over": "bad"} {
			wantValue(t, s.get("/memory/n/"+key), value)
		}
		for _, key := range []string{"new", "landed"} {
			wantStatus(t, s.get("/memory/n/"+key), http.StatusNotFound)
		}
	})
}

// By a clock of upstream's that is behind, this host's own write may seem to be older than it is: it is not what was there.
func TestRewindByAClockThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t)
		time.Sleep(time.Hour)
		r := &rewinding{s, strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)}
		time.Sleep(time.Minute)
		s.by("agent", "k", "bad")
		s.by("agent", "k", "worse")
		s.upstream.set(id("n", "k"), "bad") // unanswered, and an hour ago
		if seen := r.preview(""); seen.Left != 1 {
			t.Errorf("%+v", seen)
		}
	})
}

// An upstream that keeps versions has what was there before this host's own unread write.
func TestRewindAsksForVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kept := newPast(t)
		s.upstream.clock = float64(time.Now().Unix())
		k, by := id("n", "k"), id("n", "by-both")
		s.foreign(kept, k, "older")
		s.foreign(kept, k, "theirs")
		s.foreign(kept, by, "theirs")
		time.Sleep(time.Minute)
		r := &rewinding{s, strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)}
		time.Sleep(time.Minute)
		s.upstream.clock = float64(time.Now().Unix())
		s.foreign(kept, by, "later")
		for _, key := range []string{"by-both", "k", "new"} {
			s.by("agent", key, "bad")
			s.settle(id("n", key))
			s.upstream.set(id("n", key), "bad")
		}
		left := api.LeftEntry{Key: "by-both", Why: "another host has written it since"}
		seen := r.preview("")
		wantCounts(t, seen.RewindCounts, counts(1, 0, 0, 2, left, api.LeftEntry{Key: "new", Why: "it was overwritten unread, or is new: botwired does not know what was here before"}))
		r.undo(seen.AsOf, "&author=agent")
		wantValue(t, s.get("/memory/n/k"), "theirs")
		s.settle(k)
		wantCounts(t, r.undo(seen.AsOf, "&all_authors=true").RewindCounts, counts(1, 0, 1, 1,
			api.LeftEntry{Key: "new", Why: "it was overwritten unread, or is new: botwired does not know what was here before"}))
		wantValue(t, s.get("/memory/n/by-both"), "theirs")
	})
}

// Two callers at once do the work once, and pages follow each other.
func TestRewindTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t)
		for i := range 600 {
			s.by("good", fmt.Sprint(i), "good")
		}
		r := &rewinding{s, strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)}
		time.Sleep(time.Minute)
		for i := range 600 {
			s.by("agent", fmt.Sprint(i), "bad")
		}
		seen := r.preview("")
		done := make(chan [2]int)
		for range 2 {
			go func() {
				var sum [2]int
				for after := ""; ; {
					page := r.undo(seen.AsOf, "&author=agent"+after)
					sum[0], sum[1] = sum[0]+page.Restored, sum[1]+page.Same
					if page.Left != 0 {
						t.Errorf("%+v", page)
					}
					if page.Next == nil {
						break
					}
					after = "&after=" + *page.Next
				}
				done <- sum
			}()
		}
		one, two := <-done, <-done
		if one[0]+two[0] != 600 || one[0]+one[1] != 600 || two[0]+two[1] != 600 {
			t.Errorf("restored and same: %v, %v", one, two)
		}
		for i := range 600 {
			wantValue(t, s.get("/memory/n/"+fmt.Sprint(i)), "good")
		}
	})
}

func TestRewindRefuses(t *testing.T) {
	s := newSidecar(t)
	for query, why := range map[string]string{
		"namespace=n&before=x":    "expected a time as RFC 3339",
		"namespace=n&before=NaN":  "expected a time as RFC 3339",
		"namespace=n":             "expected a time as RFC 3339",
		"before=1":                "namespace is missing",
		"namespace=n&before=1e12": "expected a time in the past",
		"namespace=n&before=1&author=a&all_authors=true":    "exclude each other",
		"namespace=n&before=2026-11-27T09:30:00Z&as_of=1":   "unknown parameter",
		"namespace=n&before=1&all_authors=perhaps&author=a": "expected true or false",
	} {
		wantDetail(t, s.get("/_botwired/undo/namespace?"+query), http.StatusBadRequest, why)
	}
	wantDetail(t, s.do(http.MethodPost, "/_botwired/undo/namespace?namespace=n&before=1", ""), http.StatusBadRequest, "as_of")
}

// contract 5: a condition or a name, which an undo of a namespace cannot keep to, is not ignored.
func TestRewindTakesNoConditions(t *testing.T) {
	s := newSidecar(t)
	for name, value := range map[string]string{"If-Match": "*", "If-None-Match": `"1-a"`, "Idempotency-Key": "a"} {
		wantDetail(t, s.do(http.MethodPost, "/_botwired/undo/namespace?namespace=n&before=1&as_of=1", "", name, value),
			http.StatusBadRequest, "as_of, which makes it safe to repeat")
	}
}
