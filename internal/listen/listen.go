// Package listen opens the listener of the setting listen, and determines which addresses lead to it.
package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/words"
)

const (
	// socketMode lets only the daemon's own user connect to its socket.
	socketMode = 0o600
	// staleCheck limits the attempt to connect to a socket that may be stale.
	staleCheck = time.Second
)

// On opens the listener of the setting listen.
func On(ctx context.Context, c *config.Config) (net.Listener, error) {
	listener, err := listenOn(ctx, c)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen = %q: the address is in use: stop the program that listens there, or choose another address", c.Listen)
	}
	if err != nil {
		return nil, fmt.Errorf("listen = %q: %w", c.Listen, Why(err))
	}
	return listener, nil
}

func listenOn(ctx context.Context, c *config.Config) (net.Listener, error) {
	path, ok := c.Socket()
	if !ok {
		return new(net.ListenConfig).Listen(ctx, Network(c.Listen), c.Listen)
	}
	lock, err := lockSocket(path)
	if err != nil {
		return nil, err
	}
	listener, err := takeSocket(ctx, path)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &lockedListener{listener, lock}, nil
}

// Network returns "tcp4" for an IPv4 address such as 0.0.0.0: with "tcp", Go would listen on IPv6 as
// well.
func Network(address string) string {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.To4() != nil {
		return "tcp4"
	}
	return "tcp"
}

// takeSocket listens on a socket, and first removes one that a killed process left behind. The caller
// holds the lock on the name.
func takeSocket(ctx context.Context, path string) (net.Listener, error) {
	listener, err := listenOnSocket(ctx, path)
	if errors.Is(err, syscall.EADDRINUSE) && isStale(ctx, path) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		listener, err = listenOnSocket(ctx, path)
	}
	return listener, err
}

// lockedListener is a listener on a socket whose name is locked.
type lockedListener struct {
	net.Listener
	lock io.Closer
}

// Close removes the socket before it unlocks the name.
func (l *lockedListener) Close() error {
	return errors.Join(l.Listener.Close(), l.lock.Close())
}

// listenOnSocket creates the socket with its final mode: another user could connect before a later
// chmod.
func listenOnSocket(ctx context.Context, path string) (listener net.Listener, err error) {
	withUmask(0o777&^socketMode, func() {
		listener, err = new(net.ListenConfig).Listen(ctx, "unix", path)
	})
	return listener, err
}

// isStale reports whether a killed process left the socket behind, so that nobody accepts on it.
func isStale(ctx context.Context, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return false
	}
	conn, err := (&net.Dialer{Timeout: staleCheck}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close() // somebody answers: it is not stale
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Why returns an error that says in plain words why the daemon cannot listen.
func Why(err error) error {
	text := ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		text = "permission denied: this user may not listen there (ports below 1024 are for root): choose another address"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		text = "this machine does not have that address: choose another"
	case errors.Is(err, fs.ErrNotExist):
		text = "the directory of the socket does not exist: make it, or choose another"
	default:
		text = words.Reason(err)
	}
	return words.Plain(text, err)
}
