package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
)

// deadLetter makes upstream refuse the write of a value for good.
func (s *sidecar) deadLetter(of journal.ID, value string) {
	s.t.Helper()
	s.put(of, value)
	w, _, err := s.journal.Newest(of)
	if err == nil {
		err = s.journal.DeadLetter(w, journal.Failure{Status: 413, Reason: "HTTP 413: too large"})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Without a limit, the list has up to 100. The next page begins after the last id.
func TestDeadLettersAreListedInPages(t *testing.T) {
	s := newSidecar(t)
	for i := range 103 {
		s.deadLetter(id("n", fmt.Sprint("k", i)), "secret-value")
	}
	page := func(query string) (ids []string) {
		t.Helper()
		var got struct {
			DeadLetters []api.ListedDeadLetter `json:"dead_letters"`
		}
		decode(t, s.get("/_botwired/dead-letters"+query), &got)
		for _, l := range got.DeadLetters {
			ids = append(ids, l.ID)
		}
		return ids
	}
	if got := page(""); len(got) != 100 || got[0] != "1" || got[99] != "100" {
		t.Errorf("the first page is %q", got)
	}
	for query, want := range map[string][]string{
		"?after=100": {"101", "102", "103"}, "?after=100&limit=2": {"101", "102"}, "?limit=1": {"1"},
		"?after=103": nil, "?after=18446744073709551614": nil,
	} {
		if diff := cmp.Diff(want, page(query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	if got := page("?limit=10000"); len(got) != 103 {
		t.Errorf("%d of 103 are listed", len(got))
	}
}

func TestDeadLetters(t *testing.T) {
	s := newSidecar(t)
	s.deadLetter(id("n", "a"), "secret-value")
	s.deadLetter(id("n", "b"), "secret-value")
	var got struct {
		DeadLetters []api.ListedDeadLetter `json:"dead_letters"`
	}
	w := s.get("/_botwired/dead-letters")
	decode(t, w, &got)
	want := []api.ListedDeadLetter{
		{ID: "1", Kind: "refused", Seq: 1, Namespace: "n", Key: "a", Op: "put", Status: 413, Error: "HTTP 413: too large"},
		{ID: "2", Kind: "refused", Seq: 2, Namespace: "n", Key: "b", Op: "put", Status: 413, Error: "HTTP 413: too large"},
	}
	if diff := cmp.Diff(want, got.DeadLetters, cmpopts.IgnoreFields(api.ListedDeadLetter{}, "WrittenAt", "RefusedAt")); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	if strings.Contains(w.Body.String(), "secret-value") {
		t.Error("a value is shown")
	}
	wantStatus(t, s.do(http.MethodPost, "/_botwired/dead-letters/1/retry", ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/a"), "secret-value")
	wantStatus(t, s.do(http.MethodDelete, "/_botwired/dead-letters/2", ""), http.StatusOK)
	for _, again := range [][2]string{{http.MethodPost, "1/retry"}, {http.MethodDelete, "2"}} {
		wantDetail(t, s.do(again[0], "/_botwired/dead-letters/"+again[1], ""), http.StatusNotFound, "no such dead letter")
	}
	if w := s.get("/_botwired/dead-letters"); w.Body.String() != "{\"dead_letters\":[]}\n" {
		t.Errorf("left: %s", w.Body)
	}
}

// All dead letters are retried in the order of their writes, except those of entries that were written since.
func TestRetryOfAllDeadLetters(t *testing.T) {
	s := newSidecar(t)
	for i := range 1200 {
		s.deadLetter(id("n", fmt.Sprint("k", i)), "secret-value")
	}
	other := id("other", "k")
	s.put(other, "v")
	w, _, err := s.journal.Newest(other)
	if err == nil {
		err = s.journal.DeadLetter(w, journal.Failure{Status: 400})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.put(id("n", "k7"), "newer")
	s.put(id("n", "k8"), "newer")
	s.settle(id("n", "k8"))
	for _, again := range []string{"first", "second"} { // two dead letters of one entry
		s.put(id("n", "twice"), again)
		w, _, err := s.journal.Newest(id("n", "twice"))
		if err == nil {
			err = s.journal.DeadLetter(w, journal.Failure{Status: 400})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var got api.Retried
	decode(t, s.do(http.MethodPost, "/_botwired/dead-letters/retry?namespace=n", ""), &got)
	if diff := cmp.Diff(api.Retried{Retried: 1200, Skipped: 2}, got); diff != "" {
		t.Errorf("retried (-want +got):\n%s", diff)
	}
	wantValue(t, s.get("/memory/n/k7"), "newer")
	wantValue(t, s.get("/memory/n/k8"), "newer")
	wantValue(t, s.get("/memory/n/k1199"), "secret-value")
	wantValue(t, s.get("/memory/n/twice"), "second")
	decode(t, s.do(http.MethodPost, "/_botwired/dead-letters/retry", ""), &got)
	if diff := cmp.Diff(api.Retried{Retried: 1, Skipped: 2}, got); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
	if n := s.journal.Stats().DeadLetters; n != 2 {
		t.Errorf("%d dead letters are left", n)
	}
}

// A dead letter's value is only in the answer about that dead letter, and in no log.
func TestValueOfADeadLetter(t *testing.T) {
	s := newSidecar(t)
	s.deadLetter(id("n", "a"), "secret-value")
	if _, err := s.journal.Append(journal.NewWrite{ID: id("n", "b"), Op: journal.Delete}); err != nil {
		t.Fatal(err)
	}
	w, _, err := s.journal.Newest(id("n", "b"))
	if err == nil {
		err = s.journal.DeadLetter(w, journal.Failure{Status: 400})
	}
	if err != nil {
		t.Fatal(err)
	}
	type document struct {
		api.ListedDeadLetter
		Value *string `json:"value"`
	}
	var put, remove document
	shown := s.get("/_botwired/dead-letters/1")
	decode(t, shown, &put)
	wantHeader(t, shown, "Cache-Control", "no-store")
	secret := "secret-value"
	want := document{api.ListedDeadLetter{ID: "1", Kind: "refused", Seq: 1, Namespace: "n", Key: "a", Op: "put", Status: 413, Error: "HTTP 413: too large"}, &secret}
	if diff := cmp.Diff(want, put, cmp.AllowUnexported(document{}), cmpopts.IgnoreFields(api.ListedDeadLetter{}, "WrittenAt", "RefusedAt")); diff != "" {
		t.Errorf("dead letter (-want +got):\n%s", diff)
	}
	decode(t, s.get("/_botwired/dead-letters/2"), &remove)
	if remove.Op != "delete" || remove.Value != nil {
		t.Errorf("a delete: %+v", remove)
	}
	wantDetail(t, s.get("/_botwired/dead-letters/3"), http.StatusNotFound, "no such dead letter")
	s.do(http.MethodPost, "/_botwired/dead-letters/1/retry?force=no", "")
	wantNotLogged(t, s, secret)
}

// A dead letter is retried over a newer write only on demand.
func TestRetryOverANewerWrite(t *testing.T) {
	s := newSidecar(t)
	s.deadLetter(id("n", "k"), "secret-value")
	s.put(id("n", "k"), "newer")
	for _, query := range []string{"", "?force=false"} {
		w := s.do(http.MethodPost, "/_botwired/dead-letters/1/retry"+query, "")
		wantDetail(t, w, http.StatusConflict, "a newer write to the entry is known", "force=true")
	}
	wantValue(t, s.get("/memory/n/k"), "newer")
	wantStatus(t, s.do(http.MethodPost, "/_botwired/dead-letters/1/retry?force=true", ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "secret-value")
	wantNotLogged(t, s, "secret-value", "newer")
}

// A dead letter is no longer open once a later write to its entry has settled or somebody has dropped it. It
// is kept, and a retry of all leaves it out.
func TestDeadLettersThatAreNotOpen(t *testing.T) {
	s := newSidecar(t)
	bury := func(key string, kind journal.DeadKind) {
		t.Helper()
		s.put(id("n", key), "dead")
		w, _, err := s.journal.Newest(id("n", key))
		if err == nil {
			err = s.journal.DeadLetter(w, journal.Failure{Kind: kind, Status: 413})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	bury("later", journal.Refused)
	bury("dropped", journal.Dropped)
	bury("again", journal.Dropped)
	s.put(id("n", "later"), "new")
	s.settle(id("n", "later"))
	s.do(http.MethodDelete, "/memory/n/later", "")
	s.settle(id("n", "later")) // no copy would say so
	bury("open", journal.Refused)
	var got struct {
		DeadLetters []api.ListedDeadLetter `json:"dead_letters"`
	}
	decode(t, s.get("/_botwired/dead-letters"), &got)
	want := []api.ListedDeadLetter{
		{ID: "1", Kind: "refused", SupersededBy: 4, Key: "later"}, {ID: "2", Kind: "dropped", Key: "dropped"},
		{ID: "3", Kind: "dropped", Key: "again"}, {ID: "6", Kind: "refused", Key: "open"},
	}
	ignored := cmpopts.IgnoreFields(api.ListedDeadLetter{}, "Seq", "Namespace", "Op", "Status", "Error", "WrittenAt", "RefusedAt")
	if diff := cmp.Diff(want, got.DeadLetters, ignored); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	var status api.Status
	decode(t, s.get("/_botwired/status"), &status)
	if status.DeadLetters != 4 || status.OpenDeadLetters != 1 {
		t.Errorf("the status says %d, and %d are open", status.DeadLetters, status.OpenDeadLetters)
	}
	metrics := s.get("/_botwired/metrics").Body.String()
	for _, line := range []string{"botwired_dead_letters 4", "botwired_open_dead_letters 1"} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	wantDetail(t, s.do(http.MethodPost, "/_botwired/dead-letters/1/retry", ""), http.StatusConflict, "a newer write to the entry is known")
	var retried api.Retried
	decode(t, s.do(http.MethodPost, "/_botwired/dead-letters/retry", ""), &retried)
	if diff := cmp.Diff(api.Retried{Retried: 1, Skipped: 3}, retried); diff != "" {
		t.Errorf("retried (-want +got):\n%s", diff)
	}
	for _, each := range []string{"1/retry?force=true", "2/retry"} {
		wantStatus(t, s.do(http.MethodPost, "/_botwired/dead-letters/"+each, ""), http.StatusOK)
	}
}
