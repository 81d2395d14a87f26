package proxy

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// refused is upstream's error when it answers, and not with what was asked for.
type refused struct {
	unavailable
	status int
	body   string
}

func (r refused) Answer() (status int, body []byte) { return r.status, []byte(r.body) }

// An agent is told what BotWire would have told it, and not that BotWire is away.
func TestUpstreamsRefusalIsPassedOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		const body = `{"detail":"pay first","accepts":[]}`
		s.upstream.refuse(refused{status: http.StatusPaymentRequired, body: body})
		for _, target := range []string{"/memory/n/k", "/memory/n"} {
			w := s.get(target)
			wantStatus(t, w, http.StatusPaymentRequired)
			wantHeader(t, w, "Content-Type", "application/json")
			wantHeader(t, w, "Retry-After", "")
			if diff := cmp.Diff(body, w.Body.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", target, diff)
			}
		}
		s.upstream.refuse(refused{unavailable{1500 * time.Millisecond}, http.StatusTooManyRequests, `{"detail":"slow down"}`})
		w := s.get("/memory/n/k")
		wantDetail(t, w, http.StatusTooManyRequests, "slow down")
		wantHeader(t, w, "Retry-After", "2")
	})
}

// What is known here answers for upstream as in any other failure.
func TestAnOldCopyAnswersWhileUpstreamRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "k"), "old")
		wantKeys(t, s.get("/memory/n"), "k")
		time.Sleep(time.Hour)
		s.upstream.refuse(refused{status: http.StatusForbidden, body: `{"detail":"no"}`})
		for _, target := range []string{"/memory/n/k", "/memory/n"} {
			w := s.get(target)
			wantStatus(t, w, http.StatusOK)
			wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-if-error")
		}
		s.policy.StaleIfError = time.Minute
		wantDetail(t, s.get("/memory/n/k"), http.StatusForbidden, "no")
	})
}

// Contract 11: what cannot be known may exist.
func TestADeleteIsJournaledWhileUpstreamRefuses(t *testing.T) {
	s := newSidecar(t)
	s.upstream.refuse(refused{status: http.StatusForbidden, body: `{"detail":"no"}`})
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
}

// Contract 15: the status names the namespaces that upstream lets nobody read.
func TestStatusNamesRefusedReads(t *testing.T) {
	s := newSidecar(t)
	s.put(id("b", "k"), "v")
	s.upstream.refusals = map[string]string{"a": "HTTP 401: who?", "b": "HTTP 403: no"}
	var got statusDocument
	decode(t, s.get("/_botwired/status"), &got)
	said := make(map[string]string)
	for _, n := range got.Namespaces {
		said[n.Namespace] = n.ReadsRefused
	}
	if diff := cmp.Diff(s.upstream.refusals, said); diff != "" || got.Namespaces[0].Namespace != "a" || got.Namespaces[1].Pending != 1 {
		t.Errorf("%+v (-want +got):\n%s", got.Namespaces, diff)
	}
}
