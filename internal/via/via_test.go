package via_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/via"
)

// daemon forwards the requests that it receives with requests of its own, as often as the test says,
// and counts the requests it received.
type daemon struct {
	chain    *via.Chain
	handler  http.Handler
	upstream http.Handler
	taken    int
	loops    bool // its last request upstream came back
}

func newDaemon() *daemon {
	d := &daemon{chain: via.New()}
	d.handler = d.chain.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { d.taken++ }))
	return d
}

// flush makes one request upstream, and returns the answer's status.
func (d *daemon) flush() int {
	r := httptest.NewRequest(http.MethodPut, "/memory/ns/k", nil)
	r.Header.Set("Via", "1.0 fred, 1.1 p.example.net (a comment, of botwired-x)")
	d.chain.Sign(r.Header)
	w := httptest.NewRecorder()
	d.upstream.ServeHTTP(w, r)
	d.loops = d.chain.Learn(w.Code, w.Result().Header)
	return w.Code
}

// The daemons of a loop of any length detect it, no matter who begins, after each has made a few
// requests. From then on none accepts another's requests.
func TestCircles(t *testing.T) {
	for length := 1; length <= 5; length++ {
		ring := make([]*daemon, length)
		for i := range ring {
			ring[i] = newDaemon()
		}
		for i, d := range ring {
			d.upstream = ring[(i+1)%length].handler
		}
		for range length {
			for _, d := range ring {
				d.flush()
			}
		}
		for _, d := range ring {
			d.taken = 0
		}
		for range 20 {
			for i, d := range ring {
				if status := d.flush(); status != http.StatusLoopDetected || !d.loops {
					t.Fatalf("circle of %d: the request of %d is answered with %d, and is seen to come back: %t", length, i, status, d.loops)
				}
			}
		}
		for i, d := range ring {
			if d.taken != 0 {
				t.Errorf("circle of %d: %d took %d requests", length, i, d.taken)
			}
		}
		// One of them gets the memory service as its upstream, which ends the loop.
		ring[0].upstream = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		for range length {
			for _, d := range ring {
				d.flush()
			}
		}
		for i, d := range ring {
			if status := d.flush(); status != http.StatusOK || d.loops {
				t.Errorf("row of %d: the request of %d is answered with %d, and is seen to come back: %t", length, i, status, d.loops)
			}
		}
	}
}

// A request that passes through both of two daemons is refused when it comes back to the first.
func TestPassedOn(t *testing.T) {
	a, b := newDaemon(), newDaemon()
	r := httptest.NewRequest(http.MethodGet, "/channels", nil)
	a.chain.Sign(r.Header)
	b.chain.Sign(r.Header)
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	if w.Code != http.StatusLoopDetected || a.taken != 0 || !strings.Contains(w.Body.String(), `{"detail":"`) {
		t.Errorf("answered with %d %s", w.Code, w.Body)
	}
}

// Callers that are not daemons see nothing of this, and a gateway's failure does not hide a loop.
func TestOthers(t *testing.T) {
	a, b := newDaemon(), newDaemon()
	for _, value := range []string{"", "1.1 vegur", "HTTP/1.1 nginx, 1.1 google", "botwired-x", "1.1", ",,"} {
		r := httptest.NewRequest(http.MethodGet, "/memory/ns/k", nil)
		r.Header.Set("Via", value)
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, r)
		if got := w.Header().Values("Via"); w.Code != http.StatusOK || len(got) > 0 {
			t.Errorf("%q: answered with %d, signed %q", value, w.Code, got)
		}
	}
	a.upstream, b.upstream = b.handler, a.handler
	a.flush()
	a.chain.Learn(http.StatusBadGateway, http.Header{})
	if status := b.flush(); status != http.StatusLoopDetected {
		t.Errorf("after a gateway's failure: %d", status)
	}
}

// The header is bounded, no matter who sends it.
func TestBounded(t *testing.T) {
	d := newDaemon()
	var many []string
	for i := range 1000 {
		many = append(many, "1.1 botwired-"+strconv.Itoa(i))
	}
	d.chain.Learn(http.StatusOK, http.Header{"Via": {strings.Join(many, ", ")}})
	r := httptest.NewRequest(http.MethodGet, "/memory/ns/k", nil)
	r.Header.Set("Via", "1.1 botwired-another")
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	if got := strings.Count(w.Header().Get("Via"), "botwired-"); got != 17 {
		t.Errorf("an answer names %d daemons", got)
	}
}
