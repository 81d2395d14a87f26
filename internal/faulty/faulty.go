// Package faulty stands in front of a memory service and fails as an upstream may: for the drill, and
// for users who test the daemon.
package faulty

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// A Mode is a way in which upstream answers or fails.
type Mode string

// The modes.
const (
	Healthy    Mode = "healthy"
	Refuses    Mode = "refuses connections"
	Hangs      Mode = "hangs"
	CutsAfter  Mode = "carries out and closes"
	CutsBefore Mode = "closes"
	Cuts       Mode = "closes, and has carried out every other request" // CutsAfter and CutsBefore in turn
	Throttles  Mode = "429"
	Portal     Mode = "a portal's 200"
	Redirects  Mode = "redirects to a portal"
	Misnames   Mode = "answers about another entry"
	// Lies answers writes with the lies in turn, and every other read truthfully: a client that
	// compares before it writes gets to write.
	Lies Mode = "lies"
)

// lies are the modes that [Lies] uses in turn.
var lies = []Mode{Portal, Redirects, Misnames}

// portalPath is the target of [Redirects].
const portalPath = "/welcome"

// Options say what fails, and how.
type Options struct {
	// Service carries out the requests.
	Service http.Handler
	// Listen opens the listener, and reopens it after it was closed: see [Refuses].
	Listen func() (net.Listener, error)
	// MaxDelay bounds the delay of a request that is carried out late, after its client has gone. A
	// busy machine adds to the delay, but no request is carried out more than twice the delay after it
	// arrived.
	MaxDelay time.Duration
	// Rand draws delays.
	Rand *rand.Rand
}

// Server is a memory service in one mode at a time. Its methods may be called concurrently.
type Server struct {
	opts    Options
	stop    context.CancelFunc // ends the requests that hang
	stopped context.Context
	under   sync.WaitGroup

	mu            sync.Mutex
	mode          Mode
	server        *http.Server // nil while it refuses connections
	reads, writes int          // requests since the mode was set
	stalled       time.Time    // when this process last stalled for long
}

// A process that stalls for stallsFrom may see a request long after it was sent. For stallsMatterFor
// after that, nothing is carried out late: it could be later than upstream's late window allows.
const (
	stallsFrom      = time.Second
	stallsMatterFor = 10 * time.Second
	stallTick       = 200 * time.Millisecond
)

// watch records stalls of this process until Close.
func (s *Server) watch() {
	tick := time.NewTicker(stallTick)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-s.stopped.Done():
			return
		}
		now := time.Now()
		if now.Sub(last) > stallsFrom {
			s.mu.Lock()
			s.stalled = now
			s.mu.Unlock()
		}
		last = now
	}
}

// punctual reports whether this process has not stalled for a while.
func (s *Server) punctual() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.stalled) >= stallsMatterFor
}

// New returns a healthy server that is listening.
func New(opts Options) (*Server, error) {
	s := &Server{opts: opts}
	s.stopped, s.stop = context.WithCancel(context.Background())
	s.stalled = time.Now().Add(-stallsMatterFor)
	s.under.Go(s.watch)
	return s, s.Be(Healthy)
}

// Be changes the mode. Requests that hang keep hanging.
func (s *Server) Be(m Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode, s.reads, s.writes = m, 0, 0
	if m == Refuses {
		return s.hangUp()
	}
	if s.server != nil {
		return nil
	}
	listener, err := s.opts.Listen()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	s.server = server
	s.under.Go(func() { _ = server.Serve(listener) })
	return nil
}

// hangUp stops listening and cuts the connections. The caller holds mu.
func (s *Server) hangUp() error {
	if s.server == nil {
		return nil
	}
	server := s.server
	s.server = nil
	return server.Close()
}

// Close ends all requests and waits for them. It does not close the service.
func (s *Server) Close() error {
	s.stop()
	s.mu.Lock()
	err := s.hangUp()
	s.mu.Unlock()
	s.under.Wait()
	return err
}

// now returns the mode for a request that has just arrived, and a random number for it.
func (s *Server) now(writes bool) (m Mode, chance float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &s.reads
	if writes {
		n = &s.writes
	}
	m = s.mode
	switch {
	case m == Lies && !writes && *n%2 == 1:
		m = Healthy
	case m == Lies && !writes:
		m = lies[*n/2%len(lies)]
	case m == Lies:
		m = lies[*n%len(lies)]
	case m == Cuts && (s.reads+s.writes)%2 == 0:
		m = CutsAfter
	case m == Cuts:
		m = CutsBefore
	}
	*n++
	return m, s.opts.Rand.Float64()
}

// ServeHTTP answers in the present mode. The service carries out a request even if the client has gone.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.under.Add(1)
	defer s.under.Done()
	arrived := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == portalPath {
		answers[Portal](w, r)
		return
	}
	request := r.WithContext(context.WithoutCancel(r.Context()))
	request.Body = io.NopCloser(bytes.NewReader(body))
	carryOut := func(w http.ResponseWriter) {
		if time.Since(arrived) > 2*s.opts.MaxDelay {
			panic(http.ErrAbortHandler)
		}
		s.opts.Service.ServeHTTP(w, request)
	}
	m, chance := s.now(r.Method != http.MethodGet)
	switch m {
	case Hangs:
		s.hang(carryOut, chance)
		panic(http.ErrAbortHandler)
	case CutsAfter:
		carryOut(httptest.NewRecorder())
		panic(http.ErrAbortHandler)
	case CutsBefore, Refuses:
		panic(http.ErrAbortHandler)
	}
	if answer, ok := answers[m]; ok {
		answer(w, r)
		return
	}
	carryOut(w)
}

// hang never answers. It carries out half of the requests, late.
func (s *Server) hang(carryOut func(http.ResponseWriter), chance float64) {
	if chance < 0.5 {
		s.wait(time.Duration(2 * chance * float64(s.opts.MaxDelay)))
		if s.punctual() {
			carryOut(httptest.NewRecorder())
		}
	}
	s.wait(time.Minute)
}

func (s *Server) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.stopped.Done():
	}
}

// OwnHost returns a loopback address that only this process uses, if the system has many. A server that
// closes its listener for a while gives up its port. No other program may take the port meanwhile and
// receive the owner's requests.
func OwnHost() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	pid := os.Getpid()
	return fmt.Sprintf("127.2.%d.%d", pid>>8&0xff, pid&0xff)
}

// Connections returns [Options].Listen for a TCP address. The first call chooses the port, and later
// calls listen on the same one. at returns the address with that port.
func Connections(ctx context.Context, address string) (listen func() (net.Listener, error), at func() string) {
	ctx = context.WithoutCancel(ctx)
	listen = func() (net.Listener, error) {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("upstream cannot listen: %w", err)
		}
		address = l.Addr().String()
		return l, nil
	}
	return listen, func() string { return address }
}

// answers are given without the service.
var answers = map[Mode]func(http.ResponseWriter, *http.Request){
	Throttles: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		reply(w, http.StatusTooManyRequests, "application/json", `{"detail":"Rate limit exceeded"}`)
	},
	Portal: func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "text/html", "<h1>Welcome</h1>") },
	Redirects: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, portalPath, http.StatusFound)
	},
	Misnames: misname,
}

// misname answers as BotWire would, but about another entry.
func misname(w http.ResponseWriter, r *http.Request) {
	const about = `"namespace":"elsewhere","key":"another"`
	answer := `{` + about + `,"value":"another's","created_at":1.5,"updated_at":1.5}`
	switch {
	case r.Method == http.MethodPut:
		answer = `{` + about + `,"stored":true,"bytes":9}`
	case r.Method == http.MethodDelete:
		answer = `{"deleted":true,` + about + `}`
	case strings.Count(r.URL.Path, "/") < 3:
		answer = `{"namespace":"elsewhere","count":0,"keys":[]}`
	}
	reply(w, http.StatusOK, "application/json", answer)
}

func reply(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may have gone
}
