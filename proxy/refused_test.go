package proxy_test

import (
	"cmp"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// refused is the error for an upstream that answers with a refusal.
type refused struct {
	unavailable
	status int
	body   string
}

func (r refused) Answer() (status int, body []byte) {
	return r.status, []byte(cmp.Or(r.body, `{"detail":"refused"}`))
}

// An agent gets BotWire's refusal, and is not told that BotWire is away.
func TestUpstreamsRefusalIsPassedOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		const body = `{"detail":"pay first","accepts":[]}`
		s.upstream.refuse(refused{status: http.StatusPaymentRequired, body: body})
		for _, target := range []string{"/memory/n/k", "/memory/n"} {
			w := s.get(target)
			wantStatus(t, w, http.StatusPaymentRequired)
			wantHeader(t, w, "Content-Type", "application/json")
			wantHeader(t, w, "Retry-After", "")
			if diff := gocmp.Diff(body, w.Body.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", target, diff)
			}
		}
		s.upstream.refuse(refused{unavailable{1500 * time.Millisecond}, http.StatusTooManyRequests, `{"detail":"slow down"}`})
		w := s.get("/memory/n/k")
		wantDetail(t, w, http.StatusTooManyRequests, "slow down")
		wantHeader(t, w, "Retry-After", "2")
	})
}

// A local copy answers for upstream as in any other failure.
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

// held is the error for a value upstream that is refused.
type held struct{ unavailable }

func (held) Held() bool { return true }

// Upstream holds an entry that nobody here can open. The daemon never says that it is absent, even if it was before.
func TestNoAbsenceWhileUpstreamHoldsWhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, assumingAbsent)
		s.learn(id("n", "k"), "old")
		wantStatus(t, s.get("/memory/n/other"), http.StatusNotFound)
		time.Sleep(time.Hour)
		s.upstream.refuse(held{})
		wantStatus(t, s.get("/memory/n/k"), http.StatusOK)
		for _, key := range []string{"other", "never"} {
			wantStatus(t, s.get("/memory/n/"+key), http.StatusServiceUnavailable)
			wantStatus(t, s.do(http.MethodDelete, "/memory/n/"+key, ""), http.StatusOK)
		}
	})
}

// Upstream shows an older version of an entry than was known here before its copy and its history gave way. Nobody reads
// it, and the entry is not absent.
func TestNoAbsenceWhileUpstreamHoldsAnOlderVersion(t *testing.T) {
	s := newSidecar(t, assumingAbsent, func(o *journal.Options, _ *proxy.Options) {
		o.Named = func(string) bool { return true }
	})
	show := func(value string, madeAt float64) {
		s.upstream.set(id("n", "k"), value)
		o := s.upstream.entries[id("n", "k")]
		o.MadeAt = madeAt
		s.upstream.entries[id("n", "k")] = o
	}
	show("newer", 60)
	wantStatus(t, s.get("/memory/n/k", "Cache-Control", "no-store"), http.StatusOK)
	show("older", 50)
	for _, directive := range []string{"", "no-store", "no-cache"} {
		wantDetail(t, s.get("/memory/n/k", "Cache-Control", directive), http.StatusServiceUnavailable, "older state")
	}
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
	s.settle(id("n", "k"))
	wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
}

// If upstream refuses, the caller of a DELETE is told so, and nothing is journaled. With a 429, upstream is
// there but has no time: an unknown entry may exist (contract 11).
func TestADeleteThatUpstreamRefuses(t *testing.T) {
	s := newSidecar(t)
	for _, status := range []int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusBadRequest} {
		const body = `{"detail":"no","accepts":[]}`
		s.upstream.refuse(refused{status: status, body: body})
		w := s.do(http.MethodDelete, "/memory/n/k", "")
		wantStatus(t, w, status)
		wantHeader(t, w, "Botwired-Write", "")
		if got := w.Body.String(); got != body {
			t.Errorf("%d is answered with %s", status, got)
		}
	}
	if n := s.journal.Stats().LastSeq; n != 0 {
		t.Errorf("%d writes were made", n)
	}
	s.put(id("n", "mine"), "v")
	wantStatus(t, s.do(http.MethodDelete, "/memory/n/mine", ""), http.StatusOK) // nobody has to be asked
	s.upstream.refuse(refused{unavailable{time.Second}, http.StatusTooManyRequests, `{"detail":"slow down"}`})
	w := s.do(http.MethodDelete, "/memory/n/k", "")
	wantStatus(t, w, http.StatusOK)
	wantHeader(t, w, "Botwired-Write", "pending; assumed; seq=3")
}

// Contract 15: the status names the namespaces whose reads upstream refuses.
func TestStatusNamesRefusedReads(t *testing.T) {
	s := newSidecar(t)
	s.put(id("b", "k"), "v")
	s.upstream.refuseReads(map[string]string{"a": "HTTP 401: who?", "b": "HTTP 403: no"})
	var got api.Status
	decode(t, s.get("/_botwired/status"), &got)
	said := make(map[string]string)
	for _, n := range got.Namespaces {
		said[n.Namespace] = n.ReadsRefused
	}
	if diff := gocmp.Diff(s.upstream.refusals, said); diff != "" || got.Namespaces[0].Namespace != "a" || got.Namespaces[1].Pending != 1 {
		t.Errorf("%+v (-want +got):\n%s", got.Namespaces, diff)
	}
}

// Contract 23: the status names the sealed namespaces, and what was refused of them.
func TestStatusNamesWhatDoesNotOpen(t *testing.T) {
	s := newSidecar(t)
	s.put(id("b", "k"), "v")
	s.upstream.notOpened = map[string]string{"sealed": "k: it is not sealed"}
	var got api.Status
	decode(t, s.get("/_botwired/status"), &got)
	if n := got.Namespaces; len(n) != 2 || n[0].Sealed || n[0].NotOpened != "" || !n[1].Sealed || n[1].NotOpened != "k: it is not sealed" {
		t.Errorf("%+v", n)
	}
}
