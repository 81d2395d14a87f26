package fastpath

import "time"

// The values of conn.idleSince beside a time.
const (
	busy    = 0
	evicted = -1
)

// rest marks the connection as waiting, since a time, for bytes of its caller: for the head of a
// request or for its body. A waiting connection may be closed for another caller's sake.
func (c *conn) rest(since time.Time) {
	c.idleSince.CompareAndSwap(busy, since.UnixNano())
	if s := c.server; s.crowded.Load() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Broadcast()
	}
}

// wake marks that bytes have come. It returns false if the connection was closed for another caller's
// sake: then the request must not be answered.
func (c *conn) wake() bool {
	since := c.idleSince.Load()
	return since == busy || since != evicted && c.idleSince.CompareAndSwap(since, busy)
}

// makeWay makes room for another connection: it closes the idlest one, or waits while all are busy. The caller
// holds mu.
func (s *Server) makeWay() {
	if s.opts.MaxConns == 0 {
		return
	}
	s.crowded.Store(true) // before a look at who is idle
	defer s.crowded.Store(false)
	for len(s.conns) >= s.opts.MaxConns && !s.closing.Load() {
		if !s.evicting {
			s.evicting = s.evict()
		}
		s.room.Wait()
	}
}

// Crowded reports whether a newcomer waits because all connections are busy.
func (s *Server) Crowded() bool { return s.crowded.Load() }

// evict closes the idlest connection, if any is idle. The caller holds mu.
func (s *Server) evict() bool {
	var idlest *conn
	var since int64
	for c := range s.conns {
		if t := c.idleSince.Load(); t > busy && (idlest == nil || t < since) { // guard 16.31
			idlest, since = c, t
		}
	}
	if idlest == nil || !idlest.idleSince.CompareAndSwap(since, evicted) {
		return false // one that has just woken up says when it rests again
	}
	// guard 16.30
	_ = idlest.net.Close() // it fails if the connection has ended, which is as good
	return true
}
