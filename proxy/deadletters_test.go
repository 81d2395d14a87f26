package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/journal"
)

// deadLetter has upstream refuse a write for good.
func (s *sidecar) deadLetter(key string) {
	s.t.Helper()
	s.put(id("n", key), "secret-value")
	w, _, err := s.journal.Newest(id("n", key))
	if err == nil {
		err = s.journal.DeadLetter(w, journal.Failure{Status: 413, Reason: "HTTP 413: too large"})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Without a limit of its own, the list has 100. The next page begins after the last id.
func TestDeadLettersAreListedInPages(t *testing.T) {
	s := newSidecar(t)
	for i := range 103 {
		s.deadLetter(fmt.Sprint("k", i))
	}
	page := func(query string) (ids []string) {
		t.Helper()
		var got struct {
			DeadLetters []deadLetterDocument `json:"dead_letters"`
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
	s.deadLetter("a")
	s.deadLetter("b")
	var got struct {
		DeadLetters []deadLetterDocument `json:"dead_letters"`
	}
	w := s.get("/_botwired/dead-letters")
	decode(t, w, &got)
	want := []deadLetterDocument{
		{ID: "1", Kind: "refused", Seq: 1, Namespace: "n", Key: "a", Op: "put", Status: 413, Error: "HTTP 413: too large"},
		{ID: "2", Kind: "refused", Seq: 2, Namespace: "n", Key: "b", Op: "put", Status: 413, Error: "HTTP 413: too large"},
	}
	if diff := cmp.Diff(want, got.DeadLetters, cmpopts.IgnoreFields(deadLetterDocument{}, "WrittenAt", "RefusedAt")); diff != "" {
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

// All dead letters are retried in the order of their writes, but for those to an entry that
// has been written since.
func TestRetryOfAllDeadLetters(t *testing.T) {
	s := newSidecar(t)
	for i := range 1200 {
		s.deadLetter(fmt.Sprint("k", i))
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
	var got retriedDocument
	decode(t, s.do(http.MethodPost, "/_botwired/dead-letters/retry?namespace=n", ""), &got)
	if diff := cmp.Diff(retriedDocument{Retried: 1200, Skipped: 2}, got); diff != "" {
		t.Errorf("retried (-want +got):\n%s", diff)
	}
	wantValue(t, s.get("/memory/n/k7"), "newer")
	wantValue(t, s.get("/memory/n/k8"), "newer")
	wantValue(t, s.get("/memory/n/k1199"), "secret-value")
	wantValue(t, s.get("/memory/n/twice"), "second")
	decode(t, s.do(http.MethodPost, "/_botwired/dead-letters/retry", ""), &got)
	if diff := cmp.Diff(retriedDocument{Retried: 1, Skipped: 2}, got); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
	if n := s.journal.Stats().DeadLetters; n != 2 {
		t.Errorf("%d dead letters are left", n)
	}
}

// The value of a dead letter is in the answer about that one alone, and in no log.
func TestValueOfADeadLetter(t *testing.T) {
	s := newSidecar(t)
	s.deadLetter("a")
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
		deadLetterDocument
		Value *string `json:"value"`
	}
	var put, remove document
	shown := s.get("/_botwired/dead-letters/1")
	decode(t, shown, &put)
	wantHeader(t, shown, "Cache-Control", "no-store")
	secret := "secret-value"
	want := document{deadLetterDocument{ID: "1", Kind: "refused", Seq: 1, Namespace: "n", Key: "a", Op: "put", Status: 413, Error: "HTTP 413: too large"}, &secret}
	if diff := cmp.Diff(want, put, cmp.AllowUnexported(document{}), cmpopts.IgnoreFields(deadLetterDocument{}, "WrittenAt", "RefusedAt")); diff != "" {
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

// One dead letter is retried over a newer write on demand only.
func TestRetryOverANewerWrite(t *testing.T) {
	s := newSidecar(t)
	s.deadLetter("k")
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
