package proxy_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/fastpath"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/proxy"
)

// seen is an answer as a caller sees it, and when it was made.
type seen struct {
	Status int
	Header http.Header
	Body   string
	When   when
}

type when uint8

const (
	atOnce when = iota
	later
	byHandler
)

// simple sends a simple request to the fast path.
func (s *sidecar) simple(r fastpath.Request) seen {
	s.t.Helper()
	request := r
	request.Date = "Date: today\r\n"
	text, wait := s.server.AnswerSimple(&request, []byte("before"))
	switch {
	case wait != nil && text != nil:
		s.t.Fatalf("it is answered twice, at once with %q", text)
	case wait != nil:
		w := httptest.NewRecorder()
		wait(s.t.Context(), w)
		return seen{w.Code, w.Header(), w.Body.String(), later}
	case text == nil:
		full := s.fully(r)
		full.When = byHandler
		return full
	}
	text, found := bytes.CutPrefix(text, []byte("before"))
	if !found {
		s.t.Fatalf("the answer made before has become %q", text)
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
	response.Header.Del("Date") // net/http adds it, but a recorder does not
	return seen{response.StatusCode, response.Header, string(body), atOnce}
}

// fully sends the same request to the handler.
func (s *sidecar) fully(r fastpath.Request) seen {
	target, contentType := r.Path, "text/plain"
	if r.Query {
		target += "?query"
	}
	if r.JSON {
		contentType = "application/json"
	}
	w := s.do(r.Method, target, string(r.Body), "Content-Type", contentType)
	return seen{w.Code, w.Header(), w.Body.String(), atOnce}
}

func simpleGet(path string) fastpath.Request {
	return fastpath.Request{Method: http.MethodGet, Path: path}
}

func simplePut(path, body string) fastpath.Request {
	return fastpath.Request{Method: http.MethodPut, Path: path, JSON: true, Body: []byte(body)}
}

// wantSame checks that the fast path gives the handler's answer to a request.
func wantSame(t *testing.T, s *sidecar, what string, r fastpath.Request, w when) {
	t.Helper()
	full, fast := s.fully(r), s.simple(r)
	if fast.When != w {
		t.Errorf("%s: answered at moment %d, want %d", what, fast.When, w)
	}
	fast.When = atOnce
	for _, a := range []seen{full, fast} {
		if header := a.Header.Get("Botwired-Write"); header != "" {
			seq, isPending := strings.CutPrefix(header, "pending; seq=")
			if !isPending {
				t.Errorf("%s: Botwired-Write: %q", what, header)
			}
			tag, isNumbered := strings.CutPrefix(a.Header.Get("ETag"), `"`+seq+"-")
			if !isNumbered {
				t.Errorf("%s: the tag of %s is %q", what, header, a.Header.Get("ETag"))
			}
			a.Header.Del("Botwired-Write") // two writes have different numbers
			a.Header.Set("ETag", tag)
			a.Header.Del("Botwired-ETag")
		}
	}
	if diff := cmp.Diff(full, fast); diff != "" {
		t.Errorf("%s: the handler's answer (-) and the fast path's (+):\n%s", what, diff)
	}
}

func TestAFreshValueIsAnsweredAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		get := simpleGet("/memory/n/k")
		s.put(id("n", "k"), "über \U0001F600 \" \\")
		wantSame(t, s, "pending", get, atOnce)
		s.settle(id("n", "k"))
		wantSame(t, s, "settled", get, atOnce)
		time.Sleep(usual.FreshFor - time.Nanosecond)
		wantSame(t, s, "as old as it may be", get, atOnce)
		s.put(id("n", "largest"), strings.Repeat("x", copiedValue-200))
		wantSame(t, s, "as large as it may be", simpleGet("/memory/n/largest"), atOnce)
		s.put(id("n", "large"), strings.Repeat("x", copiedValue))
		wantSame(t, s, "too large to be copied", simpleGet("/memory/n/large"), later)
		synctest.Wait()
	})
}

func TestASimpleWriteIsAnsweredAtOnce(t *testing.T) {
	s := newSidecar(t)
	const path = "/memory/n/k"
	for _, value := range []string{"", "x", strings.Repeat("\U0001F600", 1000)} {
		wantSame(t, s, value, simplePut(path, putBody(value)), atOnce)
		wantValue(t, s.get(path), value)
	}
	if got := s.journal.Stats().LastSeq; got != 6 {
		t.Errorf("6 writes have made %d", got)
	}
}

// An answer that is not certain at once has to wait, or says what is wrong. The handler answers requests
// other than a GET and a PUT of an entry.
func TestWhenSimpleRequestsAreAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.learn(id("n", "old"), "theirs")
		s.learn(id("n", "older"), "theirs")
		s.upstream.setDown(true) // so that asking changes nothing
		time.Sleep(usual.FreshFor)
		s.put(id("n", "known"), "mine")
		s.put(id("n", "gone"), "mine")
		wantStatus(t, s.do(http.MethodDelete, "/memory/n/gone", ""), http.StatusOK)
		before := s.journal.Stats().LastSeq
		query, text := simpleGet("/memory/n/known"), simplePut("/memory/n/k", putBody("v"))
		query.Query, text.JSON = true, false
		for what, c := range map[string]struct {
			r    fastpath.Request
			when when
		}{
			"a miss":              {simpleGet("/memory/n/unknown"), later},
			"a tombstone":         {simpleGet("/memory/n/gone"), atOnce},
			"a stale copy":        {simpleGet("/memory/n/old"), later},
			"a bad namespace":     {simpleGet("/memory/n.n/k"), later},
			"a bad key":           {simpleGet("/memory/n/k~"), later},
			"no body":             {simplePut("/memory/n/k", ""), later},
			"no JSON":             {simplePut("/memory/n/k", "{"), later},
			"no string":           {simplePut("/memory/n/k", `{"value":1}`), later},
			"no body, bad key":    {simplePut("/memory/n/k~", "{}"), later},
			"a large value":       {simplePut("/memory/n/k", putBody(strings.Repeat("x", 100_001))), later},
			"a put to a bad key":  {simplePut("/memory/n/k~", putBody("v")), later},
			"a listing":           {simpleGet("/memory/n"), byHandler},
			"no route":            {simpleGet("/memory/n/k/x"), byHandler},
			"a slash too many":    {simpleGet("/memory/n/known/"), byHandler},
			"a query":             {query, byHandler},
			"a put to a listing":  {simplePut("/memory/n", putBody("v")), byHandler},
			"not said to be JSON": {text, byHandler},
		} {
			wantSame(t, s, what, c.r, c.when)
		}
		if got := s.journal.Stats().LastSeq; got != before {
			t.Errorf("%d writes were made", got-before)
		}
		remove := fastpath.Request{Method: http.MethodDelete, Path: "/memory/n/known"}
		if got := s.simple(remove); got.When != byHandler || got.Status != http.StatusOK {
			t.Errorf("a delete is answered with %+v", got)
		}
		synctest.Wait()
	})
}

// A miss asks upstream only once.
func TestASimpleMissAsksUpstream(t *testing.T) {
	inBubble(t, func(t *testing.T, s *sidecar) {
		s.upstream.set(id("n", "k"), "theirs")
		got := s.simple(simpleGet("/memory/n/k"))
		want := seen{http.StatusOK, http.Header{"Botwired-Etag": got.Header["Etag"], "Cache-Status": {"botwired; fwd=miss"}, "Content-Length": got.Header["Content-Length"], "Content-Type": {"application/json"}, "Etag": got.Header["Etag"]}, got.Body, later}
		if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(got.Body, `"theirs"`) || !strings.HasPrefix(got.Header.Get("ETag"), `"upstream-`) {
			t.Errorf("%s (-want +got):\n%s", got.Body, diff)
		}
		wantAsked(t, s, question{ID: id("n", "k"), Waits: true})
		absent := s.simple(simpleGet("/memory/n/absent"))
		if absent.Status != http.StatusNotFound || absent.When != later {
			t.Errorf("an absence is answered with %+v", absent)
		}
		wantAsked(t, s, question{ID: id("n", "absent"), Waits: true})
		synctest.Wait() // the cache stores it
		wantSame(t, s, "a known absence", simpleGet("/memory/n/absent"), atOnce)
		wantAsked(t, s)
	})
}

// A write that the journal does not take is refused. After Close there is nobody to ask.
func TestASimpleWriteThatIsNotTaken(t *testing.T) {
	s := newSidecar(t, func(j *journal.Options, _ *proxy.Options) { j.MaxBytes = 200 })
	wantSame(t, s, "a full journal", simplePut("/memory/n/k", putBody(strings.Repeat("x", 300))), later)
	if got := s.simple(simplePut("/memory/n/k", putBody(strings.Repeat("x", 300)))); got.Status != http.StatusInsufficientStorage {
		t.Errorf("a full journal answers %+v", got)
	}
	s.server.Close()
	wantSame(t, s, "a closed server", simplePut("/memory/n/k", putBody("x")), byHandler)
	if n := s.journal.Stats().LastSeq; n != 0 {
		t.Errorf("%d writes were made", n)
	}
}

// A panic on the fast path gets the same answer as one in the handler.
func TestAPanicOnTheFastPathIsAnswered(t *testing.T) {
	s := newSidecar(t, func(_ *journal.Options, o *proxy.Options) {
		o.Policy = func(string) cache.Policy { panic("secret-value") }
	})
	s.put(id("n", "k"), "v")
	wantSame(t, s, "a panic", simpleGet("/memory/n/k"), later)
	wantLogged(t, s, "msg=panic", "level=ERROR", "entry.go")
	wantNotLogged(t, s, "secret-value")
}

// The answer to a PUT of anything but an entry does not wait for the body.
func TestWhetherTheBodyMatters(t *testing.T) {
	for path, want := range map[string]bool{
		"/memory/n/k": true, "/memory/not.a.name/k": true,
		"/memory/n": false, "/memory/n/": false, "/memory/n/k/": false, "/memory/n/k/x": false, "/memory/": false,
	} {
		if got := proxy.BodyMatters(&fastpath.Request{Method: http.MethodPut, Path: path}); got != want {
			t.Errorf("%s: %t", path, got)
		}
		if want {
			continue
		}
		s := newSidecar(t)
		for _, body := range []string{"", `{"value":"v"}`, "no JSON"} {
			if w := s.do(http.MethodPut, path, body); w.Code != s.do(http.MethodPut, path, "").Code {
				t.Errorf("%s with %q: %d", path, body, w.Code)
			}
		}
	}
}
