package cluster

import (
	"context"
	"net"
	"sync"
)

// Link passes a network's bytes on, in both directions, until it is cut. Its methods may be called
// concurrently.
type Link struct {
	listener net.Listener
	to       string
	work     sync.WaitGroup

	mu    sync.Mutex
	cut   chan struct{} // nil if nothing is cut; closed when the link is whole again
	conns map[net.Conn]bool
	ended bool
}

// NewLink returns a link that listens on a loopback address of its own and leads to the address to.
func NewLink(ctx context.Context, to string) (*Link, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, to: to, conns: make(map[net.Conn]bool)}
	l.work.Go(l.accept)
	return l, nil
}

// Address is where the link listens: host and port.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Cut stops the bytes, as a broken network does: nobody is told, and connections stay. Bytes that
// were on the way wait.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut == nil {
		l.cut = make(chan struct{})
	}
}

// Join undoes Cut: the bytes that have waited arrive, as those that a network sends again.
func (l *Link) Join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut != nil {
		close(l.cut)
		l.cut = nil
	}
}

// Close ends the link and its connections.
func (l *Link) Close() error {
	err := l.listener.Close()
	l.Join()
	l.mu.Lock()
	l.ended = true
	for conn := range l.conns {
		conn.Close()
	}
	l.mu.Unlock()
	l.work.Wait()
	return err
}

func (l *Link) accept() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.work.Go(func() { l.carry(from) })
	}
}

// carry passes on the bytes of one connection.
func (l *Link) carry(from net.Conn) {
	if !l.keep(from) {
		return
	}
	defer l.drop(from)
	l.whole()
	to, err := net.Dial("tcp", l.to) //nolint:noctx // loopback answers at once
	if err != nil || !l.keep(to) {
		return
	}
	defer l.drop(to)
	var both sync.WaitGroup
	both.Go(func() { l.copy(to, from) })
	both.Go(func() { l.copy(from, to) })
	both.Wait()
}

// copy ends both connections at its end: a half of one is of no use to anybody here.
func (l *Link) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		l.whole()
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// whole waits until the link is.
func (l *Link) whole() {
	for {
		l.mu.Lock()
		cut := l.cut
		l.mu.Unlock()
		if cut == nil {
			return
		}
		<-cut
	}
}

func (l *Link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		conn.Close()
		return false
	}
	l.conns[conn] = true
	return true
}

func (l *Link) drop(conn net.Conn) {
	conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}
