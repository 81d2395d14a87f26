package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/journal"
)

type listDocument struct {
	Namespace string
	Count     int
	Keys      []listKeyDocument
}

type listKeyDocument struct {
	Key       string
	Bytes     int
	UpdatedAt float64 `json:"updated_at"`
}

// wantKeys checks a listing's keys in order, and the rules for any listing.
func wantKeys(t *testing.T, w *httptest.ResponseRecorder, keys ...string) listDocument {
	t.Helper()
	wantStatus(t, w, http.StatusOK)
	var doc listDocument
	decode(t, w, &doc)
	var got []string
	for i, k := range doc.Keys {
		got = append(got, k.Key)
		if i > 0 && k.UpdatedAt > doc.Keys[i-1].UpdatedAt {
			t.Errorf("%s is newer than %s before it", k.Key, doc.Keys[i-1].Key)
		}
	}
	if diff := cmp.Diff(keys, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if doc.Count != len(doc.Keys) {
		t.Errorf("count %d of %d keys", doc.Count, len(doc.Keys))
	}
	return doc
}

// Contract 10.
func TestAListingIsUpstreamsWithThePendingSetLaidOver(t *testing.T) {
	s := newSidecar(t)
	for _, key := range []string{"a", "b", "c"} {
		s.upstream.set(id("n", key), "theirs")
	}
	wantKeys(t, s.get("/memory/n"), "c", "b", "a")
	s.put(id("n", "a"), "two €\x00behind")
	s.put(id("n", "new"), "")
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/c", ""), http.StatusOK)
	s.put(id("other", "x"), "v")
	doc := wantKeys(t, s.get("/memory/n"), "new", "a", "b")
	if got := doc.Keys[0].Bytes; got != 0 {
		t.Errorf("an empty value has %d bytes", got)
	}
	if got := doc.Keys[1].Bytes; got != 5 { // characters, up to the NUL
		t.Errorf("the value has %d bytes, want 5", got)
	}
	wantKeys(t, s.get("/memory/n?limit=2"), "new", "a")
	wantKeys(t, s.get("/memory/n?limit=1"), "new")

	// The listing stays the same once everything has settled and upstream agrees.
	before := s.get("/memory/n").Body.String()
	for _, key := range []string{"a", "new", "c"} {
		s.settle(id("n", key))
	}
	if diff := cmp.Diff(before, s.get("/memory/n").Body.String()); diff != "" {
		t.Errorf("listing after settling (-pending +settled):\n%s", diff)
	}
	wantKeys(t, s.get("/memory/n", "Cache-Control", "no-cache"), "new", "a", "b")
	wantHeader(t, s.get("/memory/n"), "Botwired-List", "")
}

func TestAnEmptyNamespaceIsListed(t *testing.T) {
	s := newSidecar(t)
	w := s.get("/memory/n")
	if got, want := w.Body.String(), `{"namespace":"n","count":0,"keys":[]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.put(id("n", "k"), "v")
	wantKeys(t, s.get("/memory/n"), "k")
}

func TestAnOldListingAnswersWhileUpstreamIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "theirs"), "v")
		wantKeys(t, s.get("/memory/n"), "theirs")
		s.upstream.setDown(true)
		time.Sleep(time.Hour)
		s.put(id("n", "mine"), "v")
		w := s.get("/memory/n")
		wantKeys(t, w, "mine", "theirs")
		wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-if-error")
		s.policy.StaleIfError = time.Minute
		wantStatus(t, s.get("/memory/n"), http.StatusServiceUnavailable)
	})
}

// Upstream lists a limited number of keys. If keys may be missing, the answer says so. A missing key may be
// newer than a listed one (contract 7), so a full page says so too.
func TestAListingThatMayLackKeysSaysSo(t *testing.T) {
	s := newSidecar(t)
	s.upstream.most = 5
	for i := range 8 {
		s.upstream.set(id("n", fmt.Sprint("k", i)), "v")
	}
	w := s.get("/memory/n")
	wantKeys(t, w, "k7", "k6", "k5", "k4", "k3")
	wantHeader(t, w, "Botwired-List", "incomplete")
	wantHeader(t, s.get("/memory/n?limit=5"), "Botwired-List", "incomplete") // also for a full page
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/k7", ""), http.StatusOK)
	w = s.get("/memory/n?limit=5")
	wantKeys(t, w, "k6", "k5", "k4", "k3")
	wantHeader(t, w, "Botwired-List", "incomplete")
	wantHeader(t, s.get("/memory/n?limit=4"), "Botwired-List", "incomplete")
}

func TestTheLimitIsCheckedBeforeTheNamespace(t *testing.T) {
	s := newSidecar(t)
	wantStatus(t, s.get("/memory/bad%20name?limit=0"), http.StatusUnprocessableEntity)
	wantStatus(t, s.get("/memory/bad%20name?limit=1"), http.StatusBadRequest)
	wantStatus(t, s.get("/memory/n?limit=1001"), http.StatusUnprocessableEntity)
	wantAsked(t, s)
}

// A LIST reads the newest of many rows, and more of them if pending deletes hide some.
func TestAListOfManyRows(t *testing.T) {
	s := newSidecar(t)
	const all, deleted = 4000, 1500
	rows := make([]journal.Row, all)
	for i := range rows {
		rows[i] = journal.Row{Key: fmt.Sprintf("k%04d", i), ListBytes: 1, UpdatedAt: float64(i + 1)}
	}
	if err := s.journal.BeginListing("n").Commit(rows, false); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[all-deleted:] {
		if _, err := s.journal.Append(journal.NewWrite{ID: id("n", row.Key), Op: journal.Delete}); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{1, 10, maxListLimit} {
		keys := keysIn(t, s.get(fmt.Sprint("/memory/n?limit=", limit)))
		if len(keys) != limit || keys[0] != rows[all-deleted-1].Key || keys[limit-1] != rows[all-deleted-limit].Key {
			t.Errorf("a limit of %d: %d items, from %v", limit, len(keys), keys[:min(1, len(keys))])
		}
	}
}
