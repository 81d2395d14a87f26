package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy/memory"
)

// add appends a text to an entry.
func (s *sidecar) add(id journal.ID, separator, text string, headers ...string) *httptest.ResponseRecorder {
	target := "/_botwired/append?namespace=" + id.Namespace + "&key=" + id.Key + "&separator=" + separator
	return s.do(http.MethodPost, target, putBody(text), headers...)
}

// An append gets the same answer as a PUT of the longer value.
func TestAnAppendIsAcknowledgedAsAPut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		k := id("n", "k")
		first := s.add(k, "%0A", "oné")
		wantStatus(t, first, http.StatusOK)
		if got, want := first.Body.String(), `{"namespace":"n","key":"k","stored":true,"bytes":3}`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		wantHeader(t, first, "Botwired-Write", "pending; seq=1")
		wantHeader(t, first, "Etag", memory.WriteTag(1, "oné"))
		second := s.add(k, "%0A", "two")
		wantHeader(t, second, "Etag", memory.WriteTag(2, "oné\ntwo"))
		wantValue(t, s.get("/memory/n/k"), "oné\ntwo")
		s.settle(k)
		wantStatus(t, s.add(k, "", "!"), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "oné\ntwo!")
		s.put(k, "")
		wantStatus(t, s.add(k, "%0A", "after nothing"), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "after nothing")
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/k", ""), http.StatusOK)
		wantStatus(t, s.add(k, "%0A", "after a delete"), http.StatusOK)
		wantValue(t, s.get("/memory/n/k"), "after a delete")

		s.upstream.set(id("n", "theirs"), "known upstream")
		wantStatus(t, s.add(id("n", "theirs"), "+", "only"), http.StatusOK)
		wantValue(t, s.get("/memory/n/theirs"), "known upstream only")
	})
}

// contract 5: no acknowledged append is lost, however many callers append and whoever else writes. Each PUT
// here rewrites the whole value with an item more, on the condition that the value is still the one that it read.
func TestAppendsOfManyAreAllKept(t *testing.T) {
	s, k := newSidecar(t), id("n", "k")
	const writers, each = 16, 20
	var adding sync.WaitGroup
	for w := range writers {
		adding.Go(func() {
			for n := range each {
				if code := s.add(k, ",", fmt.Sprintf("%d-%d", w, n)).Code; code != http.StatusOK {
					t.Errorf("status %d", code)
				}
			}
		})
	}
	added := make(chan struct{})
	go func() { defer close(added); adding.Wait() }()
	puts := s.putAtTheEnd(t, added)
	next := make(map[string]int)
	for _, item := range strings.Split(valueIn(t, s.get("/memory/n/k")), ",") {
		w, n, _ := strings.Cut(item, "-")
		if n != strconv.Itoa(next[w]) {
			t.Errorf("%s-%s, want %d", w, n, next[w])
		}
		next[w]++
	}
	if next["put"] != puts {
		t.Errorf("%d of %d puts are left", next["put"], puts)
	}
	delete(next, "put")
	for w, n := range next {
		if n != each {
			t.Errorf("%s has %d of %d", w, n, each)
		}
	}
	if len(next) != writers {
		t.Errorf("%d writers, want %d", len(next), writers)
	}
}

// putAtTheEnd lengthens the value by PUTs under If-Match until all appends are done, and returns how many
// PUTs got a 200.
func (s *sidecar) putAtTheEnd(t *testing.T, added <-chan struct{}) (puts int) {
	t.Helper()
	for {
		select {
		case <-added:
			return puts
		default:
		}
		read := s.get("/memory/n/k")
		if read.Code != http.StatusOK {
			continue
		}
		value := fmt.Sprintf("%s,put-%d", valueIn(t, read), puts)
		if s.do(http.MethodPut, "/memory/n/k", putBody(value), "If-Match", read.Header().Get("Etag")).Code == http.StatusOK {
			puts++
		}
	}
}

// An append that would make the value too long, or whose condition fails, leaves the value as it is.
func TestAppendsThatAreRefused(t *testing.T) {
	s, k := newSidecar(t), id("n", "k")
	full := strings.Repeat("é", 99_998)
	s.put(k, full)
	wantStatus(t, s.add(k, "", "é"), http.StatusOK)
	wantDetail(t, s.add(k, "%20", "é"), http.StatusRequestEntityTooLarge, "has 99999 characters, and 2 more do not fit", "Nothing was written")
	wantValue(t, s.get("/memory/n/k"), full+"é")
	wantDetail(t, s.add(id("n", "new"), "", full+"éee"), http.StatusBadRequest, "Value too large")
	wantStatus(t, s.do(http.MethodPost, "/_botwired/append?namespace=n&key=k", `{"value":1}`), http.StatusUnprocessableEntity)
	wantStatus(t, s.do(http.MethodPost, "/_botwired/append?namespace=n&key=k", `{"value":"\ud800"}`), http.StatusUnprocessableEntity)
	for query, part := range map[string]string{
		"": "expected the parameters namespace and key", "?namespace=n&key=a%20b": "", "?namespace=n&key=k&sep=x": "unknown parameter",
		"?namespace=n&key=k&separator=%ff":                              "separator is wrong: expected at most 100 characters",
		"?namespace=n&key=k&separator=" + strings.Repeat("%C3%A9", 101): "separator is wrong",
	} {
		wantDetail(t, s.do(http.MethodPost, "/_botwired/append"+query, putBody("v")), http.StatusBadRequest, part)
	}
	get := s.get("/_botwired/append?namespace=n&key=k")
	wantStatus(t, get, http.StatusMethodNotAllowed)
	wantHeader(t, get, "Allow", http.MethodPost)

	wantStatus(t, s.add(id("n", "none"), "", "v", "If-Match", "*"), http.StatusPreconditionFailed)
	wantStatus(t, s.add(k, "", "v", "If-None-Match", "*"), http.StatusPreconditionFailed)
	wantStatus(t, s.add(k, "", "v", "If-Match", `"other"`), http.StatusPreconditionFailed)
	s.put(k, "short")
	wantStatus(t, s.add(k, "", "er", "If-Match", s.tag(k)), http.StatusOK)
	wantValue(t, s.get("/memory/n/k"), "shorter")
}

// An append to an unknown entry fails: it would lose upstream's value.
func TestAnAppendToWhatNobodyKnows(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.setDown(true)
		w := s.add(id("n", "k"), "", "v")
		wantDetail(t, w, http.StatusServiceUnavailable, "not known here")
		if w.Header().Get("Retry-After") == "" || s.journal.Stats().LastSeq != 0 {
			t.Errorf("%v, and %d writes", w.Header(), s.journal.Stats().LastSeq)
		}
		s.upstream.setDown(false)
		s.upstream.refuse(refused{status: http.StatusForbidden})
		wantStatus(t, s.add(id("n", "k"), "", "v"), http.StatusForbidden)
	})
}

// In a write-through namespace, an append goes upstream, and a write that comes in between stays.
func TestAnAppendWritesThrough(t *testing.T) {
	inThrough(t, func(t *testing.T, s *sidecar) {
		k := id("through", "k")
		s.put(k, "one")
		w := s.add(k, "%20", "two")
		wantStatus(t, w, http.StatusOK)
		wantHeader(t, w, "Botwired-Write", "settled; seq=2")
		if value, _ := s.upstream.holds(k); value != "one two" {
			t.Errorf("upstream holds %q", value)
		}
		s.put(id("through", "other"), "v")
		s.flusher.become(func(journal.Write) (bool, error) { return false, unconfirmed{3 * time.Second} })
		w = s.do(http.MethodPost, "/_botwired/append?namespace=through&key=k&separator=%20", putBody("three"))
		wantDetail(t, w, http.StatusGatewayTimeout, "still pending")
		wantHeader(t, w, "Botwired-Write", "pending; seq=4")
		wantHeader(t, w, "Retry-After", "3")
		wantValue(t, s.get("/memory/through/k"), "one two three")
	})
}

// An append can wait for upstream.
func TestAnAppendWaitsForUpstream(t *testing.T) {
	s := newSidecar(t)
	s.flusher.await = func(_ context.Context, id journal.ID, _ uint64) bool { return s.flusher.settle(id) }
	w := s.add(id("n", "k"), "", "v", "Prefer", "wait=1")
	wantStatus(t, w, http.StatusOK)
	wantHeader(t, w, "Botwired-Write", "settled; seq=1")
	wantHeader(t, w, "Preference-Applied", "wait=1")
}
