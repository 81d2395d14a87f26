package proxy_test

import (
	"net/http"
	"testing"

	"github.com/botwired/botwired/api"
)

func TestDropOfOneWrite(t *testing.T) {
	s := newSidecar(t)
	s.put(id("n", "k"), "v")
	s.put(id("n", "other"), "v")
	post := func(path string) (int, string) {
		w := s.do(http.MethodPost, "/_botwired/pending/"+path, "")
		return w.Code, w.Body.String()
	}
	for path, want := range map[string]int{
		"drop":                         http.StatusBadRequest,
		"drop?namespace=n":             http.StatusBadRequest,
		"drop?namespace=n&key=a%20b":   http.StatusBadRequest,
		"drop?namespace=n&key=k&seq=0": http.StatusBadRequest,
		"drop?namespace=n&key=k&seq=7": http.StatusNotFound,
		"drop?namespace=n&key=none":    http.StatusNotFound,
		"drop?namespace=n&key=k&now=1": http.StatusBadRequest,
	} {
		if status, body := post(path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	wantStatus(t, s.get("/_botwired/pending/drop?namespace=n&key=k"), http.StatusMethodNotAllowed)
	if status, body := post("drop?namespace=n&key=other&seq=2"); status != http.StatusOK ||
		body != `{"dropped":true,"id":"2","key":"other","namespace":"n","seq":2}`+"\n" {
		t.Errorf("%d %s", status, body)
	}
	var letters struct {
		DeadLetters []api.ListedDeadLetter `json:"dead_letters"`
	}
	decode(t, s.get("/_botwired/dead-letters"), &letters)
	if len(letters.DeadLetters) != 1 || letters.DeadLetters[0].Kind != "dropped" {
		t.Errorf("the dead letters: %+v", letters)
	}
	wantStatus(t, s.do(http.MethodPost, "/_botwired/dead-letters/2/retry", ""), http.StatusOK)
	wantValue(t, s.get("/memory/n/other"), "v")
}

// A request of the entry that hangs for longer than the drop may wait is no fault of the daemon.
func TestDropThatTakesTooLong(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.put(id("n", "k"), "v")
		s.flusher.stuck = true
		got := s.do(http.MethodPost, "/_botwired/pending/drop?namespace=n&key=k", "")
		wantDetail(t, got, http.StatusServiceUnavailable, "try again")
		wantHeader(t, got, "Retry-After", "1")
		wantValue(t, s.get("/memory/n/k"), "v")
	})
}
