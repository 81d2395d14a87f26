package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
	"github.com/botwired/botwired/proxy/memory"
)

// contract 16: only so many requests wait for long. The next one is refused, or a durable write answered at once.
func TestRequestsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) { o.Waiters = 2 })
		k := id("n", "k")
		s.put(k, "v")
		answered := make(chan int, 2)
		for range 2 {
			go func() { answered <- s.do(http.MethodGet, "/_botwired/receipts/1?wait=1m", "").Code }()
		}
		synctest.Wait()
		for _, w := range []string{"POST /_botwired/flush", "POST /_botwired/restore?namespace=n", "GET /_botwired/receipts/1?wait=1m", "POST /_botwired/purge?namespace=n", "GET /channels/n", "GET /_botwired/export?namespace=n"} {
			method, target, _ := strings.Cut(w, " ")
			got := s.do(method, target, "")
			wantStatus(t, got, http.StatusServiceUnavailable)
			wantHeader(t, got, "Retry-After", "5")
		}
		wantStatus(t, s.do(http.MethodGet, "/_botwired/receipts/1", ""), http.StatusOK)
		wantStatus(t, s.do(http.MethodGet, "/_botwired/livez", ""), http.StatusOK)
		other := s.put(id("n", "other"), "v", "Prefer", "wait=10")
		wantHeader(t, other, "Botwired-Write", "pending; seq=2")
		wantHeader(t, other, "Preference-Applied", "wait=0")
		s.settle(k)
		s.settle(id("n", "other"))
		for range 2 {
			if code := <-answered; code != http.StatusOK {
				t.Errorf("a wait ends with %d", code)
			}
		}
		wantStatus(t, s.do(http.MethodPost, "/_botwired/flush", ""), http.StatusOK)
	})
}

// contract 16: so do streams that are passed on, which may never end.
func TestStreamsThatArePassedOnAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
			o.Waiters, o.Forward = 2, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end })
		})
		var streams sync.WaitGroup
		for range 2 {
			streams.Go(func() { s.get("/channels/n") })
		}
		synctest.Wait()
		wantHeader(t, s.get("/channels/n"), "Retry-After", "5")
		wantStatus(t, s.get("/_botwired/livez"), http.StatusOK)
		wantStatus(t, s.put(id("n", "k"), "v"), http.StatusOK)
		close(end)
		streams.Wait()
		wantStatus(t, s.get("/channels/n"), http.StatusOK)
	})
}

// overtaken is the answer to a request that another write overtakes as soon as it is allowed to wait.
type overtaken struct {
	*httptest.ResponseRecorder
	write func()
}

func (o *overtaken) SetWriteDeadline(time.Time) error {
	write := o.write
	o.write = func() {}
	write()
	return nil
}

// contract 16: a write that waits for upstream holds one place, also if it begins anew. Each request gives its place
// back, also if it ends in a panic.
func TestAWriteGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, writesThrough, func(_ *journal.Options, o *proxy.Options) { o.Waiters = 1 })
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/_botwired/append?namespace=through&key=k", strings.NewReader(putBody("v")))
		w := &overtaken{httptest.NewRecorder(), func() {
			if _, err := s.journal.Append(memory.NewPut(id("through", "k"), "another's ")); err != nil {
				t.Error(err)
			}
		}}
		s.server.ServeHTTP(w, r)
		wantStatus(t, w.ResponseRecorder, http.StatusOK)
		if value, _ := s.upstream.holds(id("through", "k")); value != "another's v" {
			t.Errorf("upstream holds %q", value)
		}
		wantStatus(t, s.do(http.MethodPost, "/_botwired/flush", ""), http.StatusOK)
		s.flusher.become(func(journal.Write) (bool, error) { panic("a fault") })
		wantStatus(t, s.do(http.MethodPut, "/memory/through/k", putBody("v")), http.StatusInternalServerError)
		wantStatus(t, s.do(http.MethodPost, "/_botwired/flush", ""), http.StatusOK)
	})
}

// contract 16: writes through are bounded as well, on every way into the daemon. A refused one was not sent. Writes
// that wait for nobody go on.
func TestWritesThroughAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSidecar(t, writesThrough, func(_ *journal.Options, o *proxy.Options) { o.Waiters = 1 })
		answered := make(chan struct{})
		s.flusher.become(func(w journal.Write) (bool, error) {
			<-answered
			return s.flusher.settle(w.ID), nil
		})
		simply := func(key string) seen {
			return s.simple(fastpath.Request{Method: http.MethodPut, Path: "/memory/through/" + key, JSON: true, Body: []byte(putBody("v"))})
		}
		first := make(chan seen, 1)
		go func() { first <- simply("first") }()
		synctest.Wait()
		for what, got := range map[string]*httptest.ResponseRecorder{
			"a flush":              s.do(http.MethodPost, "/_botwired/flush", ""),
			"an undo":              s.do(http.MethodPost, "/_botwired/undo/namespace?namespace=through&before=1&as_of=1", ""),
			"a write through":      s.do(http.MethodPut, "/memory/through/other", putBody("v")),
			"one that may wait":    s.do(http.MethodPut, "/memory/through/other", putBody("v"), "Prefer", "wait=1"),
			"one that is appended": s.add(id("through", "other"), "", "v"),
		} {
			if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "5" {
				t.Errorf("%s beside a write through: %d %s", what, got.Code, got.Body)
			}
		}
		if got := simply("other"); got.Status != http.StatusServiceUnavailable {
			t.Errorf("another simple one: %d", got.Status)
		}
		wantStatus(t, s.put(id("n", "k"), "v"), http.StatusOK)
		close(answered)
		if got := <-first; got.Status != http.StatusOK {
			t.Errorf("the first: %d", got.Status)
		}
		if value, held := s.upstream.holds(id("through", "other")); held {
			t.Errorf("what was refused was sent: %s", value)
		}
		wantStatus(t, s.do(http.MethodPost, "/_botwired/flush", ""), http.StatusOK)
		if got := simply("other"); got.Status != http.StatusOK {
			t.Errorf("once there is a place: %d", got.Status)
		}
	})
}
