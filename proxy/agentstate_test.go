package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

const stateHeader = "Botwired-State"

// statesOf returns what each kind of answer for an entry and its namespace tells, by request. All of them succeed.
func (s *sidecar) statesOf(namespace string) map[string]string {
	s.t.Helper()
	entry, about := "/memory/"+namespace+"/k", "?namespace="+namespace
	states := map[string]string{
		"get": s.simple(simpleGet(entry)).Header.Get(stateHeader),
		"put": s.simple(simplePut(entry, `{"value":"v"}`)).Header.Get(stateHeader),
	}
	for what, request := range map[string][3]string{
		"conditional get": {http.MethodGet, entry}, "list": {http.MethodGet, "/memory/" + namespace},
		"append":  {http.MethodPost, "/_botwired/append" + about + "&key=log", `{"value":"v"}`},
		"entries": {http.MethodGet, "/_botwired/entries" + about}, "revisions": {http.MethodGet, "/_botwired/revisions" + about + "&key=k"},
	} {
		w := s.do(request[0], request[1], request[2], "Content-Type", "application/json")
		wantStatus(s.t, w, http.StatusOK)
		states[what] = w.Header().Get(stateHeader)
	}
	return states
}

func (s *sidecar) wantState(namespace, text string) {
	s.t.Helper()
	for what, got := range s.statesOf(namespace) {
		if got != text {
			s.t.Errorf("%s of %s tells %q, want %q", what, namespace, got, text)
		}
	}
}

// contract 9: each answer tells an agent what it should know of its namespace, from the next answer on, and nothing while
// all is well.
func TestAnswersCarryTheState(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.run()
		for _, namespace := range []string{"mine", "theirs"} {
			s.wantState(namespace, "")
		}
		s.upstream.setDown(true)
		s.server.UpstreamChanged(api.UpstreamState{State: "down"})
		s.wantState("mine", "Upstream has failed to answer since 2033-05-18 03:33 UTC: answers may be botwired's copies, and writes are kept here, durably, until it has them.")
		s.upstream.setDown(false)
		s.server.UpstreamChanged(api.UpstreamState{State: "up"})
		s.wantState("mine", "")
		sick := api.UpstreamState{State: "degraded", Since: time.Unix(2e9, 0), Sick: map[string]time.Time{
			"theirs": time.Unix(2e9, 0), "others": time.Unix(2e9+3600, 0),
		}}
		s.upstream.setState(&sick)
		s.server.UpstreamChanged(sick)
		s.wantState("mine", "")
		s.wantState("theirs", "Upstream has failed to answer since 2033-05-18 03:33 UTC: answers may be botwired's copies, and writes are kept here, durably, until it has them.")
		s.wantState("others", "Upstream has failed to answer since 2033-05-18 04:33 UTC: answers may be botwired's copies, and writes are kept here, durably, until it has them.")
		s.upstream.setState(nil)
		s.server.UpstreamChanged(api.UpstreamState{State: "up"})
		s.wantState("theirs", "")
		s.deadLetter(id("mine", "refused"), "it is too large")
		s.wantState("mine", "Upstream has refused 1 write of this memory for good: a person has to decide about it (botwired dead-letters).")
		s.wantState("theirs", "")
		s.upstream.refuseReads(map[string]string{"theirs": "HTTP 403: say yes to all"})
		time.Sleep(2 * time.Second)
		s.wantState("theirs", "Upstream does not let this memory be read: answers are botwired's copies.")
		for _, states := range s.statesOf("mine") {
			if strings.Contains(states, "read") {
				t.Errorf("%q is of another namespace", states)
			}
		}
	})
}

// contract 9: a journal that has no room for a large write may take a small one, whose answer must not say otherwise. The
// room may be the disk's, or that of journal.max_bytes.
func TestTheStateOfAFullJournalSpeaksOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(stored *journal.Options, _ *proxy.Options) { stored.MaxBytes = 20_000 })
		s.run()
		wantStatus(t, s.put(id("n", "large"), strings.Repeat("x", 15_000)), http.StatusOK)
		wantStatus(t, s.do(http.MethodPut, "/memory/n/larger", putBody(strings.Repeat("x", 15_000))), http.StatusInsufficientStorage)
		time.Sleep(2 * time.Second)
		s.wantState("n", "botwired has refused writes: its disk has failed, or the room for them is used up. A write that it acknowledges is kept, and what it took before is safe.")
		time.Sleep(10 * time.Second)
		s.wantState("n", "")
	})
}

// contract 9: after a time in which nobody has asked, the first answer has the state, too, whether it has come or gone.
func TestTheFirstAnswerAfterAQuietTimeCarriesTheState(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.run()
		first := func() string {
			t.Helper()
			time.Sleep(5 * time.Second)
			return s.simple(simpleGet("/memory/ns/k")).Header.Get(stateHeader)
		}
		wantStatus(t, s.put(id("ns", "k"), "v"), http.StatusOK)
		for _, want := range []struct {
			refused map[string]string
			text    string
		}{{nil, ""}, {map[string]string{"ns": "HTTP 403"}, "Upstream does not let this memory be read: answers are botwired's copies."}, {nil, ""}} {
			time.Sleep(5 * time.Second)
			s.upstream.refuseReads(want.refused)
			if got := first(); got != want.text {
				t.Errorf("it is %q, want %q", got, want.text)
			}
		}
	})
}

// contract 9: what the journal keeps over a restart is in the first answer after it.
func TestTheFirstAnswerAfterAStartCarriesTheState(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		wantStatus(t, s.put(id("ns", "k"), "v"), http.StatusOK)
		s.deadLetter(id("ns", "refused"), "v")
		s.startServer()
		if got := s.simple(simpleGet("/memory/ns/k")).Header.Get(stateHeader); !strings.HasPrefix(got, "Upstream has refused 1 write") {
			t.Errorf("it is %q", got)
		}
	})
}

// contract 9: an answer that reports an error, a condition or that nothing has changed carries the state, too. A caller
// that goes by the newest answer must not think that all is well.
func TestErrorsCarryTheState(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.run()
		entry, log := "/memory/ns/k", "/_botwired/append?namespace=ns&key=log"
		for _, key := range []string{"k", "gone"} {
			wantStatus(t, s.put(id("ns", key), "v"), http.StatusOK)
		}
		wantStatus(t, s.do(http.MethodDelete, "/memory/ns/gone", ""), http.StatusOK)
		tag := s.get(entry).Header().Get("Etag")
		s.upstream.setDown(true)
		s.server.UpstreamChanged(api.UpstreamState{State: "down"})
		for _, test := range []struct {
			status              int
			method, where, body string
			headers             []string
		}{
			{http.StatusNotModified, http.MethodGet, entry, "", []string{"If-None-Match", tag}},
			{http.StatusNotFound, http.MethodGet, "/memory/ns/gone", "", nil},
			{http.StatusNotFound, http.MethodDelete, "/memory/ns/gone", "", nil},
			{http.StatusServiceUnavailable, http.MethodGet, "/memory/ns/unknown", "", nil},
			{http.StatusGatewayTimeout, http.MethodGet, "/memory/ns/unknown", "", []string{"Cache-Control", "only-if-cached"}},
			{http.StatusNotFound, http.MethodGet, "/_botwired/revisions?namespace=ns&key=unknown", "", nil},
			{http.StatusPreconditionFailed, http.MethodGet, entry, "", []string{"If-Match", `"other"`}},
			{http.StatusPreconditionFailed, http.MethodPut, entry, `{"value":"w"}`, []string{"If-None-Match", "*"}},
			{http.StatusPreconditionFailed, http.MethodDelete, entry, "", []string{"If-Match", `"other"`}},
			{http.StatusPreconditionFailed, http.MethodPost, "/_botwired/append?namespace=ns&key=k", `{"value":"w"}`, []string{"If-Match", `"other"`}},
			{http.StatusUnprocessableEntity, http.MethodPut, entry, `{}`, nil},
			{http.StatusUnprocessableEntity, http.MethodPost, log, `{}`, nil},
			{http.StatusUnprocessableEntity, http.MethodGet, "/memory/ns?limit=x", "", nil},
			{http.StatusBadRequest, http.MethodGet, "/memory/ns/not!a!key", "", nil},
			{http.StatusBadRequest, http.MethodPut, entry, `{"value":"w"}`, []string{"If-Match", "nonsense"}},
			{http.StatusBadRequest, http.MethodPost, log, `{"value":"w"}`, []string{"If-Match", "nonsense"}},
			{http.StatusBadRequest, http.MethodPost, log + "&separator=" + strings.Repeat("-", 101), `{"value":"w"}`, nil},
			{http.StatusBadRequest, http.MethodPost, "/_botwired/undo?namespace=ns&key=k", "", []string{"Idempotency-Key", "name"}},
			{http.StatusBadRequest, http.MethodPost, "/_botwired/undo?namespace=ns&key=k&to=nonsense", "", nil},
			{http.StatusNotFound, http.MethodPost, "/_botwired/undo?namespace=ns&key=k&to=999", "", nil},
			{http.StatusMethodNotAllowed, http.MethodPost, entry, "", nil},
			{http.StatusMethodNotAllowed, http.MethodPut, "/memory/ns", "", nil},
		} {
			w := s.do(test.method, test.where, test.body, append(test.headers, "Content-Type", "application/json")...)
			if w.Code != test.status || !strings.HasPrefix(w.Header().Get(stateHeader), "Upstream has failed") {
				t.Errorf("%s %s (%q): HTTP %d, state %q, want %d: %s", test.method, test.where, test.headers, w.Code, w.Header().Get(stateHeader), test.status, w.Body)
			}
		}
		for _, r := range []fastpath.Request{simpleGet("/memory/ns/unknown"), simpleGet("/memory/ns/gone"), simpleGet("/memory/ns/not!a!key"), simplePut(entry, `{}`)} {
			if got := s.simple(r); got.Header.Get(stateHeader) == "" {
				t.Errorf("the fast path's answer to %s %s has no state: HTTP %d", r.Method, r.Path, got.Status)
			}
		}
	})
}

// contract 9: the state counts the open dead letters of each namespace, also if one has gone and another has come.
func TestTheStateCountsDeadLetters(t *testing.T) {
	const one = "Upstream has refused 1 write of this memory for good: a person has to decide about it (botwired dead-letters)."
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.run()
		s.deadLetter(id("first", "k"), "v")
		s.deadLetter(id("second", "k"), "v")
		time.Sleep(2 * time.Second)
		s.wantState("second", one)
		letters, err := s.journal.DeadLetters(0, 10)
		if err != nil || len(letters) != 2 {
			t.Fatal(letters, err)
		}
		if err := s.journal.Discard(letters[1].Seq); err != nil {
			t.Fatal(err)
		}
		s.deadLetter(id("third", "k"), "v")
		time.Sleep(2 * time.Second)
		s.wantState("first", one)
		s.wantState("second", "")
		s.wantState("third", one)
	})
}
