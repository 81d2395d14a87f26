//go:build unix && !aix && !solaris

package listen

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/botwired/botwired/config"
)

// A process that listens on a socket keeps its name, even if another one finds the path free for a
// moment, or finds a stale socket there.
func TestSocketIsOfOne(t *testing.T) {
	home, err := os.MkdirTemp("", "botwired") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	socket := filepath.Join(home, "s")
	leaveBehind(t, socket)
	c := &config.Config{Listen: "unix://" + socket}
	first, err := listenOn(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	aside := socket + "2"
	if err := os.Rename(socket, aside); err != nil {
		t.Fatal(err)
	}
	if second, err := listenOn(t.Context(), c); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("two listen on one name: %v, %v", second, err)
	}
	if err := os.Rename(aside, socket); err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", socket)
	if err != nil {
		t.Fatalf("the first is not reached any more: %v", err)
	}
	if err := errors.Join(conn.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	third, err := listenOn(t.Context(), c)
	if err != nil {
		t.Fatalf("the name is not free: %v", err)
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
}

// leaveBehind creates a socket on which nobody accepts.
func leaveBehind(t *testing.T, socket string) {
	t.Helper()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
}
