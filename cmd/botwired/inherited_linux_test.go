package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/service"
)

// A kept Unix socket at which as many callers wait as can is no socket that leads nowhere: closing
// it would refuse them all.
func TestKeptSocketWithAFullQueue(t *testing.T) {
	dir, err := os.MkdirTemp("", "botwired") // the path of a socket is short
	no(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	no(t, err)
	f := os.NewFile(uintptr(fd), "s")
	defer f.Close()
	no(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	no(t, syscall.Listen(fd, 1))
	kept, err := net.FileListener(f)
	no(t, err)
	for {
		waiting, err := net.Dial("unix", path)
		if errors.Is(err, syscall.EAGAIN) {
			break
		}
		no(t, err)
		defer waiting.Close()
	}
	in := &inherited{kept: kept}
	got, err := in.takeBack(t.Context(), &config.Config{Listen: "unix://" + path})
	no(t, err)
	if got == nil {
		t.Fatal("the daemon takes the socket for one that leads nowhere")
	}
	no(t, got.Close())
}

// The watchdog excuses a probe that lacks what the machine lacks, and no other.
func TestExcusedProbes(t *testing.T) {
	for _, test := range []struct {
		err               error
		timedOut, crowded bool
		want              bool
	}{
		{syscall.EMFILE, false, false, true},
		{syscall.EADDRNOTAVAIL, false, false, true},
		{syscall.EAGAIN, false, true, true},
		{syscall.EAGAIN, false, false, false},
		{syscall.ETIMEDOUT, true, true, true},
		{syscall.ETIMEDOUT, true, false, false},
		{syscall.ECONNREFUSED, false, true, false},
	} {
		if got := excused(fmt.Errorf("probe: %w", test.err), test.timedOut, test.crowded); got != test.want {
			t.Errorf("%v, timed out %v, crowded %v: excused %v", test.err, test.timedOut, test.crowded, got)
		}
	}
}

// A reload that ends while the daemon stops does not say that it is ready.
func TestAReloadDoesNotTakeBackAStop(t *testing.T) {
	m := newManager(t)
	t.Setenv("NOTIFY_SOCKET", m.socket)
	manager := service.Inherit()
	in := &inherited{manager: &manager}
	end := in.notify(t.Context(), slog.New(slog.DiscardHandler))
	d := &sidecar{}
	d.config.Store(new(config.Config))
	u := &unit{notifier: in.notifier, sidecar: d, ready: true, shown: "Ready."}
	done := u.reloads()
	u.stops()
	done()
	end()
	eventually(t, func() error {
		if m.count("STOPPING=1") == 0 {
			return fmt.Errorf("told %q", m.all())
		}
		return nil
	})
	if m.count("READY=1") > 0 {
		t.Errorf("told %q", m.all())
	}
}
