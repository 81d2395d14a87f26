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

// lateWindow is the daemon's upstream.late_window: a request that upstream has not
// answered may be carried out for so long.
const lateWindow = 2 * time.Second

// A mood is how upstream answers.
type mood string

const (
	healthy    mood = "healthy"
	slow       mood = "slow"
	bytewise   mood = "byte by byte"
	refuses    mood = "refuses connections"
	hangs      mood = "hangs"
	cutsAfter  mood = "carries out and closes"
	cutsBefore mood = "closes"
	overloaded mood = "503"
	throttles  mood = "429"
	gateway    mood = "a gateway's 502"
	badGateway mood = "a gateway's empty 400"
	portal     mood = "a portal's 200"
)

var moods = []mood{
	healthy, slow, bytewise, refuses, hangs, cutsAfter, cutsBefore, overloaded, throttles, gateway, badGateway, portal,
}

// upstream is BotWire's memory service, in a mood.
type upstream struct {
	address string
	memory  *selfhost.Server
	service http.Handler
	stop    context.CancelFunc // of the requests that hang
	stopped context.Context
	under   sync.WaitGroup

	mu     sync.Mutex
	mood   mood
	server *http.Server // nil while it refuses connections
	rng    *rand.Rand
}

func newUpstream(ctx context.Context, dir string, rng *rand.Rand) (*upstream, error) {
	memory, err := selfhost.Open(ctx, selfhost.Options{Path: filepath.Join(dir, "upstream.db")})
	if err != nil {
		return nil, err
	}
	u := &upstream{address: "127.0.0.1:0", memory: memory, service: memory.Handler(), rng: rng}
	u.stopped, u.stop = context.WithCancel(context.WithoutCancel(ctx))
	return u, u.be(healthy)
}

// be changes the mood.
func (u *upstream) be(m mood) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mood = m
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

func (u *upstream) now() (m mood, chance float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mood, u.rng.Float64()
}

// ServeHTTP answers in the present mood. What it carries out does not end with the
// connection.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.under.Add(1)
	defer u.under.Done()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	request := r.WithContext(context.WithoutCancel(r.Context()))
	request.Body = io.NopCloser(bytes.NewReader(body))
	m, chance := u.now()
	switch m {
	case slow:
		u.wait(time.Duration(chance * float64(time.Second)))
	case hangs:
		u.hang(request, chance)
		panic(http.ErrAbortHandler)
	case cutsAfter:
		u.service.ServeHTTP(httptest.NewRecorder(), request)
		panic(http.ErrAbortHandler)
	case cutsBefore, refuses:
		panic(http.ErrAbortHandler)
	}
	if answer, ok := refusals[m]; ok {
		answer(w)
		return
	}
	if m != bytewise {
		u.service.ServeHTTP(w, request)
		return
	}
	u.trickle(w, request)
}

var refusals = map[mood]func(http.ResponseWriter){
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
func (u *upstream) hang(r *http.Request, chance float64) {
	if chance < 0.5 {
		u.wait(time.Duration(chance * float64(lateWindow)))
		u.service.ServeHTTP(httptest.NewRecorder(), r)
	}
	u.wait(time.Minute)
}

// trickle sends an answer a few bytes at a time.
func (u *upstream) trickle(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	u.service.ServeHTTP(answer, r)
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
