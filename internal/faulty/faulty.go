// Package faulty stands in front of a memory service and fails as an upstream may: for the
// drill, and for those who live with the daemon to test it.
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
	Cuts       Mode = "closes, and has carried out every other request" // the two in turn
	Throttles  Mode = "429"
	Portal     Mode = "a portal's 200"
	Redirects  Mode = "redirects to a portal"
	Misnames   Mode = "answers about another entry"
	// Lies answers writes with the lies in turn, and every other read with the truth: what
	// compares before it writes gets to write.
	Lies Mode = "lies"
)

// lies are those that [Lies] tells in turn.
var lies = []Mode{Portal, Redirects, Misnames}

// portalPath is where [Redirects] leads.
const portalPath = "/welcome"

// Options say what fails, and how.
type Options struct {
	// Service carries the requests out.
	Service http.Handler
	// Listen opens the listener, and opens it again after it was closed: see [Refuses].
	Listen func() (net.Listener, error)
	// MaxDelay bounds the delay of a request that is carried out late, after its client
	// has gone. A busy machine adds to it: no request is carried out when twice
	// the delay has passed since it arrived.
	MaxDelay time.Duration
	// Rand draws delays.
	Rand *rand.Rand
}

// Server is a memory service in one mode at a time. Its methods may be called concurrently.
type Server struct {
	opts    Options
	stop    context.CancelFunc // of the requests that hang
	stopped context.Context
	under   sync.WaitGroup

	mu            sync.Mutex
	mode          Mode
	server        *http.Server // nil while it refuses connections
	reads, writes int          // requests in this mode
	stalled       time.Time    // when this process last stood still for long
}

// A process that stands still for stallsFrom may see a request long after it was sent. For
// stallsMatterFor after that, nothing is carried out late: it could be later than upstream's
// late window allows.
const (
	stallsFrom      = time.Second
	stallsMatterFor = 10 * time.Second
	stallTick       = 200 * time.Millisecond
)

// watch notes when this process stands still, until Close.
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

// punctual reports whether this process has run on without a stop for a while.
func (s *Server) punctual() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.stalled) >= stallsMatterFor
}

// New returns a healthy server, which listens.
func New(opts Options) (*Server, error) {
	s := &Server{opts: opts}
	s.stopped, s.stop = context.WithCancel(context.Background())
	s.stalled = time.Now().Add(-stallsMatterFor)
	s.under.Go(s.watch)
	return s, s.Be(Healthy)
}

// Be changes the mode. Requests that hang go on to.
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

// Close ends all requests, and waits for them. It leaves the service open.
func (s *Server) Close() error {
	s.stop()
	s.mu.Lock()
	err := s.hangUp()
	s.mu.Unlock()
	s.under.Wait()
	return err
}

// now is the mode for a request that has just arrived, and a random number for it.
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

// ServeHTTP answers in the present mode. The service carries a request out even if the
// client has gone.
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

// OwnHost is a loopback address of this process's own, where the system has many. A server
// that closes its listener for a while gives up its port: no other program may get it
// meanwhile, with the requests that are meant for its owner.
func OwnHost() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	pid := os.Getpid()
	return fmt.Sprintf("127.2.%d.%d", pid>>8&0xff, pid&0xff)
}

// Connections returns what [Options].Listen needs for a TCP address: it listens there again
// and again, from the second time on at the port that the first was given.
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
