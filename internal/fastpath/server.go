// Package fastpath serves the connections of callers that send simple requests: a GET,
// PUT or DELETE under /memory/, written in the one way in which every SDK writes it, with
// a small body of a stated length, and with no header but those that SDKs and tracers
// send by themselves. The goroutine that reads such a request also answers it, with one
// system call each. Any other request is answered by net/http, which borrows the
// connection for that one request. If only net/http can find out where the request ends
// (it comes in chunks, say), net/http has the connection from there on for good, with
// every byte of it.
//
// [Options.Answer] answers a simple request at once, or later if it has to wait, or leaves
// it to the handler that net/http calls too. So a caller's answer does not depend on who
// serves the connection. The guard decides about Host and tokens, for each caller once
// on a connection; no simple request has the other headers that the guard looks at, an
// Origin or Sec-Fetch-Site.
//
// The package knows nothing of memory or of the daemon.
package fastpath

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Options configures a server.
type Options struct {
	// HTTP answers the requests that are not simple. Its handler and its timeouts, which
	// must all be set, serve simple requests too. The handler must answer a simple request
	// with a Content-Type, with a final status that allows a body, and not with a stream.
	// Its ConnState and ConnContext are the Server's to set.
	HTTP *http.Server
	// Admits reports whether Answer may answer requests with this one's Host and
	// Authorization, on the connection that this one came by.
	Admits func(*http.Request) bool
	// Answer appends the complete answer to dst and returns both. An answer that must wait
	// is made later: then the answer is nil. If later is nil too, the handler answers, and
	// Answer must not have done anything that must not be done twice.
	Answer func(r *Request, dst []byte) (answer []byte, later Later)
	// BodyMatters reports, before the body of a simple request has come, whether the answer
	// depends on it. If not, or if Admits says no, the handler answers at once.
	BodyMatters func(r *Request) bool
	// MaxConns bounds the connections; 0 means no bound. At the bound, a newcomer takes the
	// place of the connection that has waited for bytes of its caller for longest, or waits
	// while all requests have come whole and are being answered.
	MaxConns int
	// Logger logs panics.
	Logger *slog.Logger
}

// Later makes an answer that may take a while, under the same rules as the handler. Its
// context ends when the caller leaves. The request is not valid any more.
type Later func(ctx context.Context, w http.ResponseWriter)

// Server serves one listener.
type Server struct {
	opts    Options
	http    *http.Server
	handler http.Handler // http's calls it too
	handoff *handoff
	closing atomic.Bool
	ending  atomic.Bool   // every answer is the last one on its connection
	admits  atomic.Uint64 // how often Readmit was called
	// base is the context of all requests; cancel ends it.
	base     func() context.Context
	cancel   context.CancelFunc
	lastDate atomic.Pointer[date]

	mu       sync.Mutex // guards what follows
	listener net.Listener
	conns    map[*conn]struct{}
	gone     chan struct{} // closed when the server is closing, accepts no more, and conns is empty
	accepts  bool          // Serve accepts connections
	closed   bool          // Close was called
	given    int           // of conns, how many net/http has for good
	room     sync.Cond     // a connection has ended, rests or is net/http's, or the server is closing
	evicting bool          // a connection that was closed for a newcomer has yet to end

	crowded atomic.Bool // a newcomer waits for room
}

// New returns a server for a listener, which it closes in the end.
func New(listener net.Listener, opts Options) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		opts: opts, http: opts.HTTP, handler: opts.HTTP.Handler, handoff: newHandoff(listener.Addr()), listener: listener,
		base: func() context.Context { return ctx }, cancel: cancel,
		conns: make(map[*conn]struct{}), gone: make(chan struct{}),
	}
	s.room.L = &s.mu
	s.http.ConnState, s.http.ConnContext = changed, withBorrowed
	s.http.Handler = http.HandlerFunc(s.handleBorrowed)
	return s
}

// Serve accepts connections until Shutdown or Close; then it returns
// [http.ErrServerClosed]. Any other error leaves the connections that there are.
func (s *Server) Serve() error {
	go func() { _ = s.http.Serve(s.handoff) }() // it ends only because the server is closed
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

// EndConnections has every answer from now on say that its connection ends with it
// (Connection: close), and accepts new connections all the same. A caller that sends its next
// request opens a connection for it, and none finds the one that it has just used closed.
func (s *Server) EndConnections() { s.ending.Store(true) }

// accept waits while the process has no file descriptors left: some will come free.
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
	for _, passing := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.ECONNRESET,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// start serves a connection, also while Shutdown lasts: its caller may have sent a request
// already. After Close nobody would end it.
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

// Readmit has Admits asked anew about every caller: the server does not go by what it said
// before.
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

// closeGone closes gone once, if no connection is left and none comes. The caller holds mu.
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

// Shutdown stops listening, lets the requests under way be answered, and returns when
// all connections are closed, or ctx's error. A connection on which not even the head of
// a request has come whole is closed after lastLook, or after firstLook if it has had no
// request yet.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.stop(func(c *conn) error {
		if c.away.Load() {
			return nil // net/http closes it, or gives it back, and it ends then
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

// awaitOwn returns once net/http has all remaining connections for good, or after ownTime, or with ctx. Any other
// may still bring a request for net/http, which answers none that comes after its own Shutdown.
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

// Close closes the listener and all connections, and returns when no simple request is
// being served any more.
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

// stop closes the listener, the first time, and calls do for all connections.
func (s *Server) stop(do func(*conn) error) (err error) {
	s.ending.Store(true)
	if !s.closing.Swap(true) {
		err = s.listener.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.Broadcast()
	for c := range s.conns {
		_ = do(c) // it fails if the connection has ended, which is as good
	}
	s.closeGone()
	return err
}

type date struct {
	second int64
	line   string
}

// date returns the line of the header Date (RFC 9110, section 6.6.1).
func (s *Server) date() string {
	now := time.Now()
	d := s.lastDate.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
		s.lastDate.Store(d)
	}
	return d.line
}
