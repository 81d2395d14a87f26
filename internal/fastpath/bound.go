package fastpath

import "time"

// busy and evicted are the values of conn.idleSince that are not times.
const (
	busy    = 0
	evicted = -1
)

// rest marks the connection as idle since a time: it waits for its caller to send a head or a body. makeWay
// may close an idle connection for a newcomer.
func (c *conn) rest(since time.Time) {
	c.idleSince.CompareAndSwap(busy, since.UnixNano())
	if s := c.server; s.crowded.Load() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Broadcast()
	}
}

// wake marks that bytes have come. It returns false if the connection was evicted: then the request must not
// be answered.
func (c *conn) wake() bool {
	since := c.idleSince.Load()
	return since == busy || since != evicted && c.idleSince.CompareAndSwap(since, busy)
}

// makeWay makes room for another connection: it evicts the idlest one, or waits while all are busy. The
// caller holds mu.
func (s *Server) makeWay() {
	if s.opts.MaxConns == 0 {
		return
	}
	s.crowded.Store(true) // before evict looks who is idle
	defer s.crowded.Store(false)
	for len(s.conns) >= s.opts.MaxConns && !s.closing.Load() {
		if !s.evicting {
			s.evicting = s.evict()
		}
		s.room.Wait()
	}
}

// Crowded reports whether a new connection waits because all others are busy.
func (s *Server) Crowded() bool { return s.crowded.Load() }

// evict closes the connection that has been idle for longest; false if none is idle. The caller holds mu.
func (s *Server) evict() bool {
	var idlest *conn
	var since int64
	for c := range s.conns {
		if t := c.idleSince.Load(); t > busy && (idlest == nil || t < since) { // guard 16.31
			idlest, since = c, t
		}
	}
	if idlest == nil || !idlest.idleSince.CompareAndSwap(since, evicted) {
		return false // it has just woken up, and calls rest again after its answer
	}
	// guard 16.30
	_ = idlest.net.Close() // an error means that the connection has already ended
	return true
}
