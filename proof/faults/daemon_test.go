//go:build faults && linux

package faults

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/child"
)

// daemon is a child process and its client.
type daemon struct {
	*client
	*child.Process
}

// start runs the daemon on a data directory and waits until it listens. The end of the
// test kills it if it still runs.
func start(t *testing.T, dir string, up *fakeUpstream, settings ...string) *daemon {
	t.Helper()
	return startBy(t, []string{builtBinary}, dir, up, settings...)
}

// startBy is start by a command that becomes the daemon, whose binary is its last argument.
func startBy(t *testing.T, command []string, dir string, up *fakeUpstream, settings ...string) *daemon {
	t.Helper()
	args := append(command[:len(command):len(command)],
		"serve", "--listen", "127.0.0.1:0", "--data-dir", dir, "--upstream-url", up.url(),
		"--flush-linger", "10ms", "--upstream-timeout", "2s", "--upstream-late-window", "1s",
	)
	process, err := child.Start(t.Context(), t.TempDir(), append(args, settings...)...)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{newClient(t, process.URL()), process}
	t.Cleanup(func() { d.end(t) })
	return d
}

// complaints returns the lines for a person, which are not the log's.
func (d *daemon) complaints() []string {
	var lines []string
	for _, line := range d.Lines() {
		if !strings.HasPrefix(line, "{") {
			lines = append(lines, line)
		}
	}
	return lines
}

func (d *daemon) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := d.Signal(s); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
}

// waitExit returns the exit code, -1 if a signal ended it.
func (d *daemon) waitExit(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-d.Exited():
	case <-time.After(limit):
		t.Fatalf("the daemon has not ended after %s:\n%s", limit, d.Tail())
	}
	return d.Code()
}

// lives fails the test if the daemon has ended.
func (d *daemon) lives(t *testing.T) {
	t.Helper()
	if err := d.Alive(); err != nil {
		t.Fatal(err)
	}
}

// terminate ends the daemon with SIGTERM, like a supervisor.
func (d *daemon) terminate(t *testing.T) {
	t.Helper()
	d.signal(t, syscall.SIGTERM)
	if code := d.waitExit(t, time.Minute); code != 0 {
		t.Fatalf("exit code %d after SIGTERM:\n%s", code, d.Tail())
	}
}

// end kills the process if it is still there, even a stopped one.
func (d *daemon) end(t *testing.T) {
	if d.Alive() != nil {
		return
	}
	if err := d.Signal(os.Kill); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill: %v", err)
	}
	select {
	case <-d.Exited():
	case <-time.After(time.Minute):
		t.Errorf("process %d outlives SIGKILL", d.Pid())
	}
	if t.Failed() {
		t.Logf("the daemon's last words:\n%s", d.Tail())
	}
}
