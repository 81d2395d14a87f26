// Package fastpath serves the connections of callers that send simple requests: a GET, PUT or DELETE under
// /memory/, written as every SDK writes it, with a small body of a stated length, and with only the headers
// that SDKs and tracers add by themselves. The goroutine that reads such a request also answers it, with one
// system call each. net/http answers any other request: it borrows the connection for that one request. If
// only net/http can find out where the request ends (it comes in chunks, say), net/http keeps the connection
// for good, with every byte from there on.
//
// [Options.Answer] answers a simple request at once, or later if it has to wait, or leaves
// it to the handler that net/http calls too. So a caller's answer does not depend on who
// serves the connection. The guard decides about Host and tokens, for each caller once
// on a connection; no simple request has the other headers that the guard looks at, an
// Origin or Sec-Fetch-Site.
//
// Of the memory API, the package knows only the prefix /memory/. It knows nothing of the daemon.
package fastpath

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/botwired/botwired/internal/pipe"
)

// Options configures a server.
type Options struct {
	// HTTP answers the requests that are not simple. Its handler and its timeouts, which must all be set,
	// serve simple requests too. The handler must answer a simple request with a Content-Type and a final
	// status that allows a body, and must not stream. New sets ConnState and ConnContext.
	HTTP *http.Server
	// Admits reports whether Answer may answer requests with the same Host and Authorization on the same
	// connection.
	Admits func(*http.Request) bool
	// Answer appends the complete answer to dst and returns both. If it has to wait, it returns no answer but
	// a Later, which makes the answer. If it returns neither, the handler answers: then Answer must not have
	// done anything that must not happen twice.
	Answer func(r *Request, dst []byte) (answer []byte, later Later)
	// BodyMatters reports, before the body of a simple request has come, whether the answer depends on it. If
	// it does not, or if Admits returns false, the handler answers at once.
	BodyMatters func(r *Request) bool
	// MaxConns bounds the connections; 0 means no bound. At the bound, a new connection replaces the one that
	// has been idle for longest, or waits while all are busy.
	MaxConns int
	// Logger logs panics.
	Logger *slog.Logger
}

// Later makes an answer that may take a while. It follows the same rules as the handler. ctx ends when the
// caller leaves. The Request is no longer valid.
type Later func(ctx context.Context, w http.ResponseWriter)

// Server serves one listener.
type Server struct {
	opts    Options
	http    *http.Server
	handler http.Handler   // net/http calls it too, through handleBorrowed
	handoff *pipe.Listener // from which net/http accepts its connections
	closing atomic.Bool
	ending  atomic.Bool   // every answer from now on is the last one on its connection
	admits  atomic.Uint64 // the number of calls of Readmit
	// base returns the context of all requests; cancel ends it.
	base     func() context.Context
	cancel   context.CancelFunc
	lastDate atomic.Pointer[date]

	mu       sync.Mutex // guards the fields up to evicting
	listener net.Listener
	conns    map[*conn]struct{}
	gone     chan struct{} // closed when the server is closing, accepts no more, and conns is empty
	accepts  bool          // Serve accepts connections
	closed   bool          // Close was called
	given    int           // number of conns that net/http has for good
	room     sync.Cond     // a connection has ended, is idle or is net/http's, or the server is closing
	evicting bool          // an evicted connection has yet to end

	crowded atomic.Bool // a new connection waits for room
}

// New returns a server for a listener. Shutdown and Close close the listener.
func New(listener net.Listener, opts Options) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		opts: opts, http: opts.HTTP, handler: opts.HTTP.Handler, handoff: pipe.Listen(), listener: listener,
		base: func() context.Context { return ctx }, cancel: cancel,
		conns: make(map[*conn]struct{}), gone: make(chan struct{}),
	}
	s.room.L = &s.mu
	s.http.ConnState, s.http.ConnContext = changed, withBorrowed
	s.http.Handler = http.HandlerFunc(s.handleBorrowed)
	return s
}

// Serve accepts connections until Shutdown or Close, and then returns [http.ErrServerClosed]. After any other
// error, the existing connections go on.
func (s *Server) Serve() error {
	go func() { _ = s.http.Serve(s.handoff) }() // it ends only when the server is closed
	s.mu.Lock()
	s.accepts = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.accepts = false
		s.room.Broadcast()
		s.closeGone()
	}()
	return s.accept()
}

// EndConnections makes every later answer end its connection (Connection: close). The server still accepts
// connections: a caller opens a new one for its next request, and never finds the old one closed.
func (s *Server) EndConnections() { s.ending.Store(true) }

// accept accepts connections. After an error that will pass, such as a lack of file descriptors, it
// pauses and tries again.
func (s *Server) accept() error {
	const first, last = 5 * time.Millisecond, time.Second
	pause := first
	for {
		c, err := s.listener.Accept()
		switch {
		case err == nil:
			pause = first
			s.start(c)
		case s.closing.Load():
			return http.ErrServerClosed
		case isPassing(err):
			s.opts.Logger.Warn("accepting a connection", "error", err, "again_in", pause)
			time.Sleep(pause)
			pause = min(2*pause, last)
		default:
			return err
		}
	}
}

func isPassing(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.ECONNRESET,
	}, func(passing error) bool { return errors.Is(err, passing) })
}

// start serves a connection, also during Shutdown, because its caller may already have sent a request. After
// Close, nothing would end the connection.
func (s *Server) start(accepted net.Conn) {
	c := &conn{server: s, net: accepted}
	c.idleSince.Store(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeWay()
	// guard 22.14
	if s.closed {
		_ = accepted.Close() // no request on it has been read
		return
	}
	s.conns[c] = struct{}{}
	go c.run()
}

// Readmit makes the server ask Admits again about every caller.
func (s *Server) Readmit() { s.admits.Add(1) }

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if c.given {
		s.given--
	}
	if c.idleSince.Load() == evicted {
		s.evicting = false
	}
	s.room.Broadcast()
	s.closeGone()
}

// closeGone closes gone once no connection is left and none will come. The caller holds mu.
func (s *Server) closeGone() {
	if !s.closing.Load() || s.accepts || len(s.conns) > 0 {
		return
	}
	select {
	case <-s.gone:
	default:
		close(s.gone)
	}
}

// Shutdown stops listening, and lets the requests in flight be answered. It returns when all connections are
// closed, or with ctx's error. A connection without a complete head is closed after lastLook, or after
// firstLook if it has had no request yet.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.stop(func(c *conn) error {
		if c.away {
			return nil // net/http closes it, or gives it back and it ends then
		}
		return c.net.SetReadDeadline(longAgo)
	})
	s.awaitOwn(ctx) // guard 22.10
	err = errors.Join(err, s.http.Shutdown(ctx))
	select {
	case <-s.gone:
		return err
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// awaitOwn returns once net/http has all remaining connections for good, after ownTime, or when ctx ends. Any
// other connection may still bring a request for net/http, which accepts none after its own Shutdown.
func (s *Server) awaitOwn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ownTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil && !s.closed && (s.accepts || s.given < len(s.conns)) {
		s.room.Wait()
	}
}

// lend notes whether net/http has a connection. Shutdown sets no deadline on it meanwhile.
func (s *Server) lend(c *conn, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.away = away
}

// giveAway counts a connection that net/http has for good, once it has read a request from it.
func (s *Server) giveAway(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.given {
		return
	}
	c.given = true
	s.given++
	s.room.Broadcast()
}

// Close closes the listener and all connections, and returns when no simple request is being served.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.stop(func(c *conn) error { return c.net.Close() })
	s.cancel()
	err = errors.Join(err, s.http.Close(), s.handoff.Close())
	<-s.gone
	return err
}

// stop closes the listener on the first call, and calls do for each connection.
func (s *Server) stop(do func(*conn) error) (err error) {
	s.ending.Store(true)
	if !s.closing.Swap(true) {
		err = s.listener.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.Broadcast()
	for c := range s.conns {
		_ = do(c) // an error means that the connection has already ended
	}
	s.closeGone()
	return err
}

type date struct {
	second int64
	line   string
}

// date returns the Date header line (RFC 9110, section 6.6.1).
func (s *Server) date() string {
	now := time.Now()
	d := s.lastDate.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
		s.lastDate.Store(d)
	}
	return d.line
}
