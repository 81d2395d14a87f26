package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"time"

	"github.com/botwired/botwired/upstream/selfhost"
)

const (
	// lateWindow is the daemon's upstream.late_window: upstream may carry out a request that
	// it has not answered for so long.
	lateWindow = 4 * time.Second
	// maxDelay bounds the delay of a request that upstream carries out late. A busy machine
	// adds to it: upstream carries out no request when twice the delay has passed since the
	// request arrived. The rest of lateWindow is for the way.
	maxDelay = time.Second
)

// A mode is a way in which upstream answers or fails.
type mode string

const (
	healthy    mode = "healthy"
	slow       mode = "slow"
	bytewise   mode = "byte by byte"
	refuses    mode = "refuses connections"
	hangs      mode = "hangs"
	cutsAfter  mode = "carries out and closes"
	cutsBefore mode = "closes"
	overloaded mode = "503"
	throttles  mode = "429"
	gateway    mode = "a gateway's 502"
	badGateway mode = "a gateway's empty 400"
	portal     mode = "a portal's 200"
)

var modes = []mode{
	healthy, slow, bytewise, refuses, hangs, cutsAfter, cutsBefore, overloaded, throttles, gateway, badGateway, portal,
}

// upstream is BotWire's memory service in one mode at a time.
type upstream struct {
	address string
	memory  *selfhost.Server
	service http.Handler
	stop    context.CancelFunc // of the requests that hang
	stopped context.Context
	under   sync.WaitGroup

	mu     sync.Mutex
	mode   mode
	server *http.Server // nil while it refuses connections
	rng    *rand.Rand
}

func newUpstream(ctx context.Context, dir string, rng *rand.Rand) (*upstream, error) {
	memory, err := selfhost.Open(ctx, selfhost.Options{Path: filepath.Join(dir, "upstream.db")})
	if err != nil {
		return nil, err
	}
	u := &upstream{address: ownHost() + ":0", memory: memory, service: memory.Handler(), rng: rng}
	u.stopped, u.stop = context.WithCancel(context.WithoutCancel(ctx))
	return u, u.be(healthy)
}

// be changes the mode.
func (u *upstream) be(m mode) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mode = m
	if m == refuses {
		return u.close()
	}
	if u.server != nil {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(u.stopped, "tcp", u.address)
	if err != nil {
		return err
	}
	u.address = listener.Addr().String()
	server := &http.Server{Handler: u, ReadHeaderTimeout: time.Minute}
	u.server = server
	u.under.Go(func() { _ = server.Serve(listener) })
	return nil
}

// close stops listening and cuts the connections. The caller holds mu.
func (u *upstream) close() error {
	if u.server == nil {
		return nil
	}
	server := u.server
	u.server = nil
	return server.Close()
}

func (u *upstream) end() error {
	u.stop()
	u.mu.Lock()
	err := u.close()
	u.mu.Unlock()
	u.under.Wait()
	return errors.Join(err, u.memory.Close())
}

func (u *upstream) now() (m mode, chance float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mode, u.rng.Float64()
}

// ServeHTTP answers in the present mode. The service carries a request out even if the
// client has gone.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.under.Add(1)
	defer u.under.Done()
	arrived := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	request := r.WithContext(context.WithoutCancel(r.Context()))
	request.Body = io.NopCloser(bytes.NewReader(body))
	carryOut := func(w http.ResponseWriter) {
		if time.Since(arrived) > 2*maxDelay {
			panic(http.ErrAbortHandler)
		}
		u.service.ServeHTTP(w, request)
	}
	m, chance := u.now()
	switch m {
	case slow:
		u.wait(time.Duration(chance * float64(maxDelay)))
	case hangs:
		u.hang(carryOut, chance)
		panic(http.ErrAbortHandler)
	case cutsAfter:
		carryOut(httptest.NewRecorder())
		panic(http.ErrAbortHandler)
	case cutsBefore, refuses:
		panic(http.ErrAbortHandler)
	}
	if answer, ok := refusals[m]; ok {
		answer(w)
		return
	}
	if m != bytewise {
		carryOut(w)
		return
	}
	answer := httptest.NewRecorder()
	carryOut(answer)
	u.trickle(w, answer)
}

var refusals = map[mode]func(http.ResponseWriter){
	overloaded: func(w http.ResponseWriter) {
		reply(w, http.StatusServiceUnavailable, "application/json", `{"detail":"Service Unavailable"}`)
	},
	throttles: func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		reply(w, http.StatusTooManyRequests, "application/json", `{"detail":"Rate limit exceeded"}`)
	},
	gateway:    func(w http.ResponseWriter) { reply(w, http.StatusBadGateway, "text/html", "<h1>Bad Gateway</h1>") },
	badGateway: func(w http.ResponseWriter) { reply(w, http.StatusBadRequest, "", "") },
	portal:     func(w http.ResponseWriter) { reply(w, http.StatusOK, "text/html", "<h1>Welcome</h1>") },
}

func reply(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may have gone
}

// hang never answers. It carries out half of the requests, late.
func (u *upstream) hang(carryOut func(http.ResponseWriter), chance float64) {
	if chance < 0.5 {
		u.wait(time.Duration(2 * chance * float64(maxDelay)))
		carryOut(httptest.NewRecorder())
	}
	u.wait(time.Minute)
}

// trickle sends an answer a few bytes at a time.
func (u *upstream) trickle(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	body := answer.Body.Bytes()
	step := max(1, len(body)/20)
	for len(body) > 0 {
		n := min(step, len(body))
		if _, err := w.Write(body[:n]); err != nil {
			return
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		body = body[n:]
		u.wait(5 * time.Millisecond)
	}
}

func (u *upstream) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-u.stopped.Done():
	}
}
