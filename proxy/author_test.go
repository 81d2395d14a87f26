package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/journal"
)

// wantAuthor checks who made the newest state of an entry.
func (s *sidecar) wantAuthor(id journal.ID, want string) {
	s.t.Helper()
	w := s.get("/_botwired/revisions?namespace=" + id.Namespace + "&key=" + id.Key)
	wantStatus(s.t, w, http.StatusOK)
	var doc api.Revisions
	decode(s.t, w, &doc)
	if got := doc.Revisions[0].Author; got != want {
		s.t.Errorf("%s is by %q, want %q", id, got, want)
	}
}

// A write is by the program that its header names, or else by its User-Agent's product. Both readers of
// requests agree.
func TestTheAuthorOfAWrite(t *testing.T) {
	s := newSidecar(t)
	k := id("n", "k")
	for _, row := range []struct{ agent, named, want string }{
		{"", "", ""},
		{"python-requests/2.31", "", "python-requests"},
		{"python-requests/2.31", "nightly job", "nightly job"},
		{"", strings.Repeat("a", 64), strings.Repeat("a", 64)},
	} {
		var headers []string
		if row.named != "" {
			headers = []string{"Botwired-Author", row.named}
		}
		wantStatus(t, s.put(k, "v", append(headers, "User-Agent", row.agent)...), http.StatusOK)
		s.wantAuthor(k, row.want)
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", "", append(headers, "User-Agent", row.agent)...), http.StatusOK)
		s.wantAuthor(k, row.want)
		if got := s.simple(fastpath.Request{
			Method: http.MethodPut, Path: "/memory/n/k", JSON: true, Body: []byte(`{"value":"v"}`), Agent: []byte(row.agent), Author: row.named,
		}); got.When != atOnce || got.Status != http.StatusOK {
			t.Errorf("%+v", got)
		}
		s.wantAuthor(k, row.want)
	}
	by := []string{"Botwired-Author", "appender", "User-Agent", "curl/8"}
	wantStatus(t, s.do(http.MethodPost, "/_botwired/append?namespace=n&key=k&separator=", putBody("more"), by...), http.StatusOK)
	s.wantAuthor(k, "appender")
	wantStatus(t, s.undo(k, "", "Botwired-Author", "someone else"), http.StatusOK)
	s.wantAuthor(k, "someone else")

	for _, named := range []string{"", " ", strings.Repeat("a", 65), "tab\tbed", "\xff"} {
		wantDetail(t, s.do(http.MethodPut, "/memory/n/k", putBody("v"), "Botwired-Author", named), http.StatusBadRequest, "1 to 64 printable characters")
	}
	if got := s.simple(fastpath.Request{Method: http.MethodPut, Path: "/memory/n/k", JSON: true, Author: strings.Repeat("a", 65)}); got.When != byHandler {
		t.Errorf("%+v", got)
	}
	wantStatus(t, s.get("/memory/n/k", "Botwired-Author", strings.Repeat("a", 65)), http.StatusOK)
	s.wantAuthor(k, "someone else")
}

// Pending writes, receipts, dead letters and events name the author.
func TestTheAuthorIsShown(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		a := s.listen(s.listener(), "events")
		k := id("n", "k")
		s.put(k, "v", "Botwired-Author", "the agent")
		if e := a.take(); len(e) != 1 || read[api.WriteEvent](t, e[0]).Author != "the agent" {
			t.Errorf("the events are %+v", e)
		}
		var pending api.Pending
		decode(t, s.get("/_botwired/pending"), &pending)
		if len(pending.Pending) != 1 || pending.Pending[0].Author != "the agent" {
			t.Errorf("%+v", pending)
		}
		for _, end := range []string{"pending", "dead"} {
			wantReceipt(t, s.get("/_botwired/receipts/1"), api.Receipt{
				Seq: 1, Namespace: "n", Key: "k", Op: "put", Author: "the agent", State: end,
			})
			w, _, err := s.journal.Newest(k)
			noError(t, err)
			if end == "pending" {
				noError(t, s.journal.DeadLetter(w, journal.Failure{}))
			}
		}
		var letter api.DeadLetter
		decode(t, s.get("/_botwired/dead-letters/1"), &letter)
		if letter.Author != "the agent" {
			t.Errorf("%+v", letter)
		}
	})
}

// An address can name the author of its caller's writes, for an SDK that sends no header of its caller's. A
// header counts more, and all else is as at the plain address.
func TestAnAddressNamesTheAuthor(t *testing.T) {
	s := newSidecar(t)
	k := id("n", "k")
	do := func(method, path, body string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("User-Agent", "python-httpx/0.28")
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		return w
	}
	wantStatus(t, do(http.MethodPut, "/_botwired/as/planner/memory/n/k", putBody("v")), http.StatusOK)
	s.wantAuthor(k, "planner")
	wantStatus(t, do(http.MethodPut, "/_botwired/as/night%20shift%2F2/memory/n/k", putBody("w")), http.StatusOK)
	s.wantAuthor(k, "night shift/2")
	wantStatus(t, do(http.MethodPut, "/_botwired/as/planner/memory/n/k", putBody("x"), "Botwired-Author", "itself"), http.StatusOK)
	s.wantAuthor(k, "itself")
	if got := s.simple(fastpath.Request{
		Method: http.MethodPut, Path: "/_botwired/as/writer/memory/n/k", JSON: true, Body: []byte(`{"value":"v"}`), Agent: []byte("python-httpx/0.28"),
	}); got.When != atOnce || got.Status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	s.wantAuthor(k, "writer")
	wantValue(t, do(http.MethodGet, "/_botwired/as/planner/memory/n/k", ""), "v")
	wantStatus(t, do(http.MethodPost, "/_botwired/as/planner/_botwired/append?namespace=n&key=k", putBody("more")), http.StatusOK)
	s.wantAuthor(k, "planner")
	wantStatus(t, do(http.MethodGet, "/_botwired/as/planner/_botwired/livez", ""), http.StatusOK)
	wantStatus(t, do(http.MethodGet, "/_botwired/as/planner/elsewhere?q=1", ""), http.StatusTeapot)
	if got := s.passed[len(s.passed)-1]; got != "GET /elsewhere" {
		t.Errorf("passed on: %s", got)
	}
	wantStatus(t, do(http.MethodGet, "/_botwired/as/a/_botwired/as/b/memory/n/k", ""), http.StatusNotFound)
	wantStatus(t, do(http.MethodPut, "/_botwired/as/planner/x/%2e%2e/memory/n/k", putBody("v")), http.StatusBadRequest)
	for _, none := range []string{"/_botwired/as//memory/n/k", "/_botwired/as/%00/memory/n/k", "/_botwired/as/" + strings.Repeat("a", 65) + "/memory/n/k"} {
		wantDetail(t, do(http.MethodPut, none, putBody("v")), http.StatusBadRequest, "1 to 64 printable characters")
	}
	if got := s.simple(fastpath.Request{Method: http.MethodPut, Path: "/_botwired/as//memory/n/k", JSON: true}); got.When != byHandler {
		t.Errorf("%+v", got)
	}
}
