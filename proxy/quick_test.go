package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/internal/front"
	"github.com/botwired/botwired/journal"
)

// seen is an answer as a caller sees it.
type seen struct {
	Status int
	Header http.Header
	Body   string
}

// quickly asks the quick handler; nil is what it leaves to the other one.
func (s *sidecar) quickly(r front.Request) *seen {
	s.t.Helper()
	r.Date = "Date: today\r\n"
	text, ok := s.server.Quick(&r, []byte("before"))
	text, found := bytes.CutPrefix(text, []byte("before"))
	if !found || (!ok && len(text) > 0) {
		s.t.Fatalf("what was answered before has become %q", text)
	}
	if !ok {
		return nil
	}
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		s.t.Fatalf("%v in %q", err, text)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatalf("%v in %q", err, text)
	}
	if got := response.Header.Get("Date"); got != "today" {
		s.t.Errorf("Date: %q", got)
	}
	response.Header.Del("Date") // net/http's part, of which a recorder knows nothing
	return &seen{response.StatusCode, response.Header, string(body)}
}

// fully asks the handler.
func (s *sidecar) fully(method, path, body string) *seen {
	w := s.do(method, path, body, "Content-Type", "application/json")
	return &seen{w.Code, w.Header(), w.Body.String()}
}

func TestAQuickReadIsTheSameAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		const path = "/memory/n/k"
		s.put(id("n", "k"), "über \U0001F600 \" \\")
		check := func(what string) {
			t.Helper()
			if diff := cmp.Diff(s.fully(http.MethodGet, path, ""), s.quickly(front.Request{Method: http.MethodGet, Path: path})); diff != "" {
				t.Errorf("%s: the handler's answer (-) and the quick one (+):\n%s", what, diff)
			}
		}
		check("pending")
		s.settle(id("n", "k"))
		check("settled")
		time.Sleep(usual.FreshFor - time.Nanosecond)
		check("as old as it may be")
		synctest.Wait()
	})
}

func TestAQuickWriteIsTheSameAnswer(t *testing.T) {
	s := newSidecar(t)
	const path = "/memory/n/k"
	for _, value := range []string{"", "x", strings.Repeat("\U0001F600", 1000)} {
		body := putBody(value)
		full := s.fully(http.MethodPut, path, body)
		quick := s.quickly(front.Request{Method: http.MethodPut, Path: path, JSON: true, Body: []byte(body)})
		for _, a := range []*seen{full, quick} {
			if !strings.HasPrefix(a.Header.Get("Botwired-Write"), "pending; seq=") {
				t.Errorf("Botwired-Write: %q", a.Header.Get("Botwired-Write"))
			}
			a.Header.Del("Botwired-Write") // two writes have two numbers
		}
		if diff := cmp.Diff(full, quick); diff != "" {
			t.Errorf("the handler's answer (-) and the quick one (+):\n%s", diff)
		}
		wantValue(t, s.get(path), value)
	}
	if got := s.journal.Stats().LastSeq; got != 6 {
		t.Errorf("6 writes have made %d", got)
	}
}

// What is not certain, and what is not right, is for the handler to say, and has left
// no trace.
func TestWhatIsNotAnsweredQuickly(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "old"), "theirs")
		time.Sleep(usual.FreshFor)
		s.learn(id("n", "known"), "theirs")
		wantStatus(t, s.get("/memory/n/absent"), http.StatusNotFound)
		s.put(id("n", "gone"), "mine")
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/gone", ""), http.StatusOK)
		s.upstream.take()
		before := s.journal.Stats().LastSeq
		get := func(path string) front.Request { return front.Request{Method: http.MethodGet, Path: path} }
		put := func(path, body string) front.Request {
			return front.Request{Method: http.MethodPut, Path: path, JSON: true, Body: []byte(body)}
		}
		query, text := get("/memory/n/known"), put("/memory/n/k", putBody("v"))
		query.Query, text.JSON = true, false
		for what, r := range map[string]front.Request{
			"a miss":              get("/memory/n/unknown"),
			"an absence":          get("/memory/n/absent"),
			"a tombstone":         get("/memory/n/gone"),
			"a stale copy":        get("/memory/n/old"),
			"a listing":           get("/memory/n"),
			"no route":            get("/memory/n/k/x"),
			"a slash too many":    get("/memory/n/known/"),
			"a bad namespace":     get("/memory/n.n/k"),
			"a bad key":           get("/memory/n/k~"),
			"a query":             query,
			"a delete":            {Method: http.MethodDelete, Path: "/memory/n/known"},
			"no body":             put("/memory/n/k", ""),
			"no JSON":             put("/memory/n/k", "{"),
			"no string":           put("/memory/n/k", `{"value":1}`),
			"a large value":       put("/memory/n/k", putBody(strings.Repeat("x", 100_001))),
			"a put to a listing":  put("/memory/n", putBody("v")),
			"a put to a bad key":  put("/memory/n/k~", putBody("v")),
			"not said to be JSON": text,
		} {
			if a := s.quickly(r); a != nil {
				t.Errorf("%s is answered with %+v", what, a)
			}
		}
		if got := s.journal.Stats().LastSeq; got != before {
			t.Errorf("%d writes were made", got-before)
		}
		wantAsked(t, s)
	})
}

// A write that is not taken is refused by the handler, and after Close there is nobody
// to ask.
func TestAQuickWriteThatIsNotTaken(t *testing.T) {
	s := newSidecar(t, func(j *journal.Options, _ *Options) { j.MaxBytes = 200 })
	r := front.Request{
		Method: http.MethodPut, Path: "/memory/n/k", JSON: true, Body: []byte(putBody(strings.Repeat("x", 300))),
	}
	if a := s.quickly(r); a != nil {
		t.Errorf("a full journal takes a write: %+v", a)
	}
	s.server.Close()
	r.Body = []byte(putBody("x"))
	if a := s.quickly(r); a != nil {
		t.Errorf("a closed server takes a write: %+v", a)
	}
}
