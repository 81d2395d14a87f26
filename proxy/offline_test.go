package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// converse has a conversation like BotWire's class for LangChain: for each message it reads the whole
// history, appends to it, and writes it back. It returns how many messages were lost.
func (s *sidecar) converse(target string, messages int) (lost int) {
	for i := range messages {
		history := ""
		switch w := s.get(target); w.Code {
		case http.StatusOK:
			history = valueIn(s.t, w)
		case http.StatusNotFound:
		default:
			lost++
			continue
		}
		if s.do(http.MethodPut, target, putBody(history+fmt.Sprint(i, ";"))).Code != http.StatusOK {
			lost++
		}
	}
	return lost
}

func conversation(messages int) string {
	var b strings.Builder
	for i := range messages {
		fmt.Fprint(&b, i, ";")
	}
	return b.String()
}

// contract 9: a conversation that begins in an outage loses nothing, in a namespace that was used before.
func TestANewConversationInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.run()
		s.learn(id("chats", "earlier"), "said before")
		time.Sleep(2 * time.Second)
		s.upstream.setDown(true)
		time.Sleep(time.Hour)
		w := s.get("/memory/chats/new")
		wantStatus(t, w, http.StatusNotFound)
		wantHeader(t, w, "Cache-Status", "botwired; hit; detail=stale-if-error")
		wantHeader(t, w, "Age", "3601")
		if lost := s.converse("/memory/chats/new", 200); lost != 0 {
			t.Errorf("%d of 200 messages are lost", lost)
		}
		wantValue(t, s.get("/memory/chats/new"), conversation(200))
		wantStatus(t, s.get("/memory/chats/earlier"), http.StatusOK)
		wantStatus(t, s.get("/memory/elsewhere/new"), http.StatusServiceUnavailable)
	})
}

// An incomplete listing proves no absence.
func TestALargeNamespaceProvesNoAbsence(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.most = 3
		for i := range 5 {
			s.upstream.set(id("large", fmt.Sprint(i)), "v")
		}
		s.run()
		wantStatus(t, s.get("/memory/large/0"), http.StatusOK)
		time.Sleep(2 * time.Second)
		s.upstream.take()
		s.upstream.setDown(true)
		wantStatus(t, s.get("/memory/large/new"), http.StatusServiceUnavailable)
		s.upstream.setDown(false)
		s.upstream.take()
		for range 10 {
			time.Sleep(time.Minute)
			wantStatus(t, s.get("/memory/large/0"), http.StatusOK)
		}
		for _, q := range s.upstream.take() {
			if q.ID.Key == "" {
				t.Error("a namespace that upstream cannot list is listed again")
			}
		}
	})
}

// A listing that has an entry ends an earlier absence.
func TestAListedEntryIsNoOldAbsence(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		wantStatus(t, s.get("/memory/n/k"), http.StatusNotFound)
		s.upstream.set(id("n", "k"), "v")
		time.Sleep(3 * time.Second)
		wantStatus(t, s.get("/memory/n"), http.StatusOK)
		s.upstream.setDown(true)
		wantStatus(t, s.get("/memory/n/k"), http.StatusServiceUnavailable)
		w := s.do(http.MethodDelete, "/memory/n/k", "")
		wantStatus(t, w, http.StatusOK)
		wantHeader(t, w, "Botwired-Write", "pending; seq=1")
	})
}

// contract 5: of callers that create an entry in an outage, based on an old absence, one succeeds.
func TestAnOldAbsenceLetsOneCallerCreate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		wantStatus(t, s.get("/memory/n"), http.StatusOK)
		time.Sleep(time.Minute)
		questions := s.upstream.hold()
		s.upstream.setDown(true)
		var waiting []<-chan int
		for i := range 8 {
			done := make(chan int, 1)
			go func() {
				done <- s.do(http.MethodPut, "/memory/n/k", putBody(fmt.Sprint(i)), "If-None-Match", "*").Code
			}()
			waiting = append(waiting, done)
		}
		synctest.Wait() // all of them have seen the absence
		close((<-questions).answer)
		s.upstream.release()
		outcomes := make(map[int]int)
		for _, w := range waiting {
			outcomes[<-w]++
		}
		if outcomes[http.StatusOK] != 1 || outcomes[http.StatusPreconditionFailed] != 7 {
			t.Errorf("outcomes: %v", outcomes)
		}
		wantStatus(t, s.do(http.MethodPut, "/memory/n/other", putBody("v"), "If-Match", `"1-x"`), http.StatusPreconditionFailed)
	})
}

func assumingAbsent(_ *journal.Options, o *proxy.Options) {
	o.AssumeAbsent = func(namespace string) bool { return namespace != "strict" }
}

// offline: assume-absent answers for unknown entries, and takes their writes.
func TestAssumedAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, assumingAbsent)
		s.upstream.setDown(true)
		w := s.get("/memory/n/k")
		wantStatus(t, w, http.StatusNotFound)
		wantHeader(t, w, "Cache-Status", "botwired; hit; detail=assume-absent")
		wantHeader(t, w, "Age", "")
		if lost := s.converse("/memory/n/k", 20); lost != 0 {
			t.Errorf("%d of 20 messages are lost", lost)
		}
		s.put(id("n", "blind"), "v")
		wantStatus(t, s.do(http.MethodPut, "/memory/n/first", putBody("v"), "If-None-Match", "*"), http.StatusOK)
		wantStatus(t, s.do(http.MethodPut, "/memory/n/first", putBody("v"), "If-None-Match", "*"), http.StatusPreconditionFailed)
		wantHeader(t, s.do(http.MethodDelete, "/memory/n/gone", ""), "Botwired-Write", "pending; assumed; seq=23")

		const advice = "set offline: assume-absent for the namespace, or --offline assume-absent for all"
		wantDetail(t, s.get("/memory/strict/k"), http.StatusServiceUnavailable, "not known here, and ", advice)
		for _, w := range []*httptest.ResponseRecorder{
			s.get("/memory/n"), s.get("/memory/n/other", "Cache-Control", "no-cache"),
		} {
			wantDetail(t, w, http.StatusServiceUnavailable, "not known here, and ")
			if strings.Contains(w.Body.String(), advice) {
				t.Errorf("advice that changes nothing: %s", w.Body)
			}
		}
		wantStatus(t, s.get("/memory/n/other", "Cache-Control", "only-if-cached"), http.StatusGatewayTimeout)
		s.upstream.setDown(false)
		s.upstream.refuse(refused{status: http.StatusForbidden})
		wantStatus(t, s.get("/memory/n/other"), http.StatusForbidden)
		s.upstream.refuse(nil)
	})
}

// The daemon never assumes that an entry is absent if a listing has it.
func TestNothingThatMayExistIsAssumedAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, assumingAbsent)
		s.upstream.set(id("n", "listed"), "v")
		wantStatus(t, s.get("/memory/n"), http.StatusOK)
		s.upstream.setDown(true)
		wantStatus(t, s.get("/memory/n/listed"), http.StatusServiceUnavailable)
	})
}
