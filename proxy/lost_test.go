package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
)

// contract 17: the state that has lost a conflict is in its entry's history, is listed without its value, and comes back by an
// undo that names it. The status counts it.
func TestLostStates(t *testing.T) {
	s := newSidecar(t)
	theirs := journal.Observation{Value: "their-value", ListBytes: 11, UpdatedAt: 1.7e9, Author: "them"}
	for _, key := range []string{"lost", "won", "deleted"} {
		s.put(id("n", key), "my-value")
	}
	s.do(http.MethodDelete, "/memory/n/deleted", "")
	lost, _, err := s.journal.Newest(id("n", "lost"))
	noError(t, err)
	noError(t, s.journal.Fence.Lose(lost, theirs, "another host wrote later"))
	noError(t, s.journal.Fence.KeepOverwritten(id("n", "won"), theirs))
	noError(t, s.journal.Fence.KeepOverwritten(id("n", "deleted"), theirs))
	s.put(id("other", "k"), "mine")
	noError(t, s.journal.Fence.KeepOverwrittenDelete(id("other", "k"), 1.7e9))

	list := func(query string) (names []string, next *string) {
		t.Helper()
		var got api.Lost
		w := s.get("/_botwired/revisions/lost" + query)
		decode(t, w, &got)
		for _, l := range got.Lost {
			if l.LostAt == nil || l.UpdatedAt == 0 || l.Revision == nil || *l.Revision != *l.Seq {
				t.Errorf("%+v", l)
			}
			names = append(names, fmt.Sprintf("%s/%s %s here=%v by %q", l.Namespace, l.Key, l.Op, l.Here, l.Author))
		}
		if text := w.Body.String(); strings.Contains(text, "-value") {
			t.Errorf("a value is shown: %s", text)
		}
		return names, got.Next
	}
	want := []string{
		`other/k delete here=false by ""`, `n/deleted put here=false by "them"`, `n/won put here=false by "them"`, `n/lost put here=true by ""`,
	}
	all, next := list("")
	if diff := cmp.Diff(want, all); diff != "" || next != nil {
		t.Errorf("lost, next %v (-want +got):\n%s", next, diff)
	}
	first, next := list("?namespace=n&limit=2")
	if next == nil {
		t.Fatal("there is no next page")
	}
	rest, end := list("?namespace=n&limit=2&after=" + *next)
	if diff := cmp.Diff(want[1:], append(first, rest...)); diff != "" || end != nil {
		t.Errorf("lost of n, by pages (-want +got):\n%s", diff)
	}
	wantDetail(t, s.get("/_botwired/revisions/lost?after=x"), http.StatusBadRequest, "next of the page before")
	var status api.Status
	decode(t, s.get("/_botwired/status"), &status)
	if status.Conflicts != 4 || status.DeadLetters != 0 {
		t.Errorf("%d conflicts and %d dead letters", status.Conflicts, status.DeadLetters)
	}
	if text := s.get("/_botwired/metrics").Body.String(); !strings.Contains(text, "botwired_conflicts 4\n") {
		t.Errorf("the metrics count no conflicts:\n%s", text)
	}

	states := func(key string) (out []string, lost api.Revision) {
		t.Helper()
		var got api.Revisions
		decode(t, s.get("/_botwired/revisions?namespace=n&key="+key), &got)
		for _, r := range got.Revisions {
			out = append(out, r.State+" "+r.Text())
			if r.State == "lost" {
				lost = r
			}
		}
		return out, lost
	}
	for key, want := range map[string]struct {
		states []string
		value  string
	}{
		"lost":    {[]string{"settled their-value", "lost my-value"}, "my-value"},
		"won":     {[]string{"pending my-value", "lost their-value"}, "their-value"},
		"deleted": {[]string{"pending ", "lost their-value", "superseded my-value"}, "their-value"},
	} {
		got, lost := states(key)
		if diff := cmp.Diff(want.states, got); diff != "" || lost.LostAt == nil {
			t.Errorf("the states of %s (-want +got):\n%s", key, diff)
		}
		undo := "/_botwired/undo?namespace=n&key=" + key
		if key == "won" {
			wantDetail(t, s.do(http.MethodPost, undo, ""), http.StatusConflict, "nothing to undo")
		}
		wantStatus(t, s.do(http.MethodPost, fmt.Sprintf("%s&to=%d", undo, *lost.Revision), ""), http.StatusOK)
		wantValue(t, s.get("/memory/n/"+key), want.value)
	}
	wantNotLogged(t, s, "my-value", "their-value")
}

// An undo takes a version that it names, and a list has that, also if more than a list's length came after it.
func TestUndoToAVersionOfLongAgo(t *testing.T) {
	s := newSidecar(t)
	s.put(id("n", "k"), "mine")
	w, _, err := s.journal.Newest(id("n", "k"))
	noError(t, err)
	noError(t, s.journal.Fence.Lose(w, journal.Observation{Value: "theirs", ListBytes: 6, UpdatedAt: 1e10}, ""))
	for i := range 200 {
		s.put(id("n", "k"), fmt.Sprint(i))
	}
	last := func(query string) api.Revision {
		t.Helper()
		var got api.Revisions
		decode(t, s.get("/_botwired/revisions?namespace=n&key=k"+query), &got)
		return got.Revisions[len(got.Revisions)-1]
	}
	if r := last(""); r.State != "superseded" {
		t.Errorf("%+v", r)
	}
	if r := last(fmt.Sprintf("&to=%d", w.Seq)); r.State != "lost" || r.Text() != "mine" {
		t.Errorf("%+v", r)
	}
	if r := last("&to=9999"); r.State != "superseded" {
		t.Errorf("%+v", r)
	}
	wantDetail(t, s.do(http.MethodPost, "/_botwired/undo?namespace=n&key=k&to=9999", ""), http.StatusNotFound, "not kept")
	wantStatus(t, s.do(http.MethodPost, fmt.Sprintf("/_botwired/undo?namespace=n&key=k&to=%d", w.Seq), ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "mine")
}
