//go:build unix

package main

import (
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"testing"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/service"
)

// A reload that ends during the stop does not report the daemon ready.
func TestNoReloadIsReadyAfterTheStop(t *testing.T) {
	m := newManager(t)
	t.Setenv("NOTIFY_SOCKET", m.socket)
	manager := service.Inherit()
	n := manager.Notifier(slog.New(slog.DiscardHandler))
	d := new(sidecar)
	d.config.Store(new(config.Config))
	u := &unit{notifier: n, sidecar: d, ready: true, shown: "Ready."}
	reloaded := u.reloads()
	u.stops()
	reloaded()
	n.Tell("X_END=1")
	eventually(t, func() error {
		if m.count("X_END=1") == 0 {
			return os.ErrNotExist
		}
		return nil
	})
	if m.count("STOPPING=1") != 1 || m.count("READY=1") > 0 {
		t.Errorf("told: %q", m.all())
	}
}

// excused accepts only errors that come from a shortage on the machine.
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
