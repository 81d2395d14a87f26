package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/api"
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
		sick := api.UpstreamState{State: "degraded", Since: time.Unix(2e9, 0), Sick: "theirs"}
		s.upstream.setState(&sick)
		s.server.UpstreamChanged(sick)
		s.wantState("mine", "")
		s.wantState("theirs", "Upstream has failed to answer since 2033-05-18 03:33 UTC: answers may be botwired's copies, and writes are kept here, durably, until it has them.")
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
