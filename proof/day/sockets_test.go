package day

import (
	"errors"
	"io"
	"net"
	"time"
)

// sockets is the price of a request and its answer over loopback.
type sockets struct {
	cpu  time.Duration // of one side: it reads once, and writes once
	wall time.Duration // of both
}

// measureSockets echoes over one connection. In virtual time there are pipes in place of the sockets, so
// the day knows nothing of what those take.
func measureSockets(dir string) (s sockets, err error) {
	const rounds, size = 20_000, 1000
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	echoed := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			echoed <- err
			return
		}
		_, err = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) // without splice
		echoed <- errors.Join(err, conn.Close())
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return s, errors.Join(err, listener.Close(), <-echoed)
	}
	before, err := usageNow(dir)
	began, buffer := time.Now(), make([]byte, size)
	for range rounds {
		if err == nil {
			_, err = conn.Write(buffer)
		}
		if err == nil {
			_, err = io.ReadFull(conn, buffer)
		}
	}
	s.wall = time.Since(began) / rounds
	after, failed := usageNow(dir)
	s.cpu = (after.cpu - before.cpu) / (2 * rounds)
	return s, errors.Join(err, failed, conn.Close(), listener.Close(), <-echoed)
}
