package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/internal/faulty"
	"github.com/botwired/botwired/internal/selfhost"
	"github.com/botwired/botwired/proof/canary"
)

const (
	// lateWindow is the daemon's upstream.late_window: upstream may carry out a request that
	// it has not answered for so long.
	lateWindow = 4 * time.Second
	// maxDelay bounds the delay of a request that upstream carries out late. The rest of
	// lateWindow is for the way, and for a busy machine.
	maxDelay = time.Second
)

// mode is how upstream fails, and how it answers where it does not: nil is as BotWire does.
type mode struct {
	faulty.Mode
	answers func(*upstream, http.ResponseWriter, *http.Request)
}

var modes = []mode{
	{Mode: faulty.Refuses}, {Mode: faulty.Hangs}, {Mode: faulty.Cuts}, {Mode: faulty.Throttles}, {Mode: faulty.Lies},
	{faulty.Healthy, (*upstream).slowly}, {faulty.Healthy, (*upstream).bytewise}, {faulty.Healthy, (*upstream).losing},
	{faulty.Healthy, says(http.StatusServiceUnavailable, "application/json", `{"detail":"Service Unavailable"}`)},
	{faulty.Healthy, says(http.StatusBadGateway, "text/html", "<h1>Bad Gateway</h1>")}, // a gateway's
	{faulty.Healthy, says(http.StatusBadRequest, "", "")},                              // likewise
}

// upstream is BotWire's memory service in one mode at a time.
type upstream struct {
	server  *faulty.Server
	address string
	memory  *selfhost.Server
	refused map[string]bool // the paths of the namespaces that it refuses
	mode    atomic.Pointer[mode]
}

// be changes the mode.
func (u *upstream) be(m mode) error {
	u.mode.Store(&m)
	return u.server.Be(m.Mode)
}

// ServeHTTP answers where the server does not fail.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m := u.mode.Load(); m != nil && m.answers != nil {
		m.answers(u, w, r)
		return
	}
	u.serve(w, r)
}

// serve answers as BotWire does. One namespace it refuses for good.
func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut && u.refused[path.Dir(r.URL.Path)] {
		says(http.StatusUnprocessableEntity, "application/json", `{"detail":"this namespace takes nothing"}`)(u, w, r)
		return
	}
	u.memory.Handler().ServeHTTP(w, r)
}

// holds returns the value that upstream holds at a path, even while upstream answers nobody. found is false if it holds none.
func (u *upstream) holds(ctx context.Context, at string) (value string, found bool, err error) {
	answer := httptest.NewRecorder()
	u.memory.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+at, nil))
	switch answer.Code {
	case http.StatusNotFound:
		return "", false, nil
	case http.StatusOK:
		var doc struct{ Value string }
		err = json.Unmarshal(answer.Body.Bytes(), &doc)
		return doc.Value, true, err
	}
	return "", false, fmt.Errorf("upstream: GET %s: %d %.200s", at, answer.Code, answer.Body)
}

// slowly answers within maxDelay, or not at all if this process stood still.
func (u *upstream) slowly(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	time.Sleep(rand.N(maxDelay))
	if time.Since(arrived) > 2*maxDelay {
		panic(http.ErrAbortHandler)
	}
	u.serve(w, r)
}

// losing answers reads, and carries all writes out. It answers a third of them, answers another third with 500,
// and closes the connections of the rest before it carries them out, slowly.
func (u *upstream) losing(w http.ResponseWriter, r *http.Request) {
	chance := rand.IntN(3)
	switch {
	case r.Method == http.MethodGet || chance == 0:
		u.serve(w, r)
		return
	case chance == 1:
		u.serve(httptest.NewRecorder(), r)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close() // the client may have gone
	}
	u.slowly(httptest.NewRecorder(), r)
}

// bytewise sends an answer a few bytes at a time.
func (u *upstream) bytewise(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	u.serve(answer, r)
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	body := answer.Body.Bytes()
	for part := range slices.Chunk(body, max(1, len(body)/20)) {
		if _, err := w.Write(part); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// says answers every request with one thing.
func says(status int, contentType, body string) func(*upstream, http.ResponseWriter, *http.Request) {
	return func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client may have gone
	}
}

func newUpstream(ctx context.Context, dir string, rng *rand.Rand, sealed *sealing) (*upstream, error) {
	memory, err := selfhost.Open(ctx, selfhost.Options{Path: filepath.Join(dir, "upstream.db")})
	if err != nil {
		return nil, err
	}
	u := &upstream{memory: memory, refused: make(map[string]bool)}
	for n := range refusedWrites {
		u.refused["/memory/"+sealed.name(refusedEntry(n).Namespace)] = true
	}
	listen, at := faulty.Connections(ctx, faulty.OwnHost()+":0")
	if sealed != nil {
		listen = watched(listen, &sealed.watch)
	}
	u.server, err = faulty.New(faulty.Options{Service: u, Listen: listen, MaxDelay: maxDelay, Rand: rng})
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	u.address = at()
	return u, nil
}

func watched(listen func() (net.Listener, error), by *canary.Watch) func() (net.Listener, error) {
	return func() (net.Listener, error) {
		l, err := listen()
		if err != nil {
			return nil, err
		}
		return by.Listener(l), nil
	}
}

func (u *upstream) end() error { return errors.Join(u.server.Close(), u.memory.Close()) }
