//go:build faults && linux

package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startLimit bounds how long the daemon may take to listen, on a busy machine.
const startLimit = time.Minute

// daemon is a child process.
type daemon struct {
	*client
	cmd    *exec.Cmd
	exited chan struct{} // closed once code and exitedAt are set
	code   int
	// exitedAt is when the test noticed the end of the process.
	exitedAt time.Time

	mu     sync.Mutex
	stderr []string
}

// start runs the daemon on a data directory and waits until it listens. The end of the
// test kills it if it still runs.
func start(t *testing.T, dir string, up *fakeUpstream, settings ...string) *daemon {
	t.Helper()
	return startBy(t, []string{builtBinary}, dir, up, settings...)
}

// startBy is start by a command that runs the daemon, which is its last argument, in place
// of itself.
func startBy(t *testing.T, command []string, dir string, up *fakeUpstream, settings ...string) *daemon {
	t.Helper()
	args := append(command[1:len(command):len(command)], append([]string{
		"serve", "--listen", "127.0.0.1:0", "--data-dir", dir, "--upstream-url", up.url(),
		"--log-format", "json", "--flush-linger", "10ms", "--flush-backoff-initial", "50ms",
		"--flush-backoff-max", "200ms", "--upstream-read-patience", "1s", "--upstream-late-window", "1s",
	}, settings...)...)
	d := &daemon{cmd: exec.Command(command[0], args...), exited: make(chan struct{})}
	// The daemon sees nothing of this machine's configuration, and dies with the tests.
	d.cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	go d.attend(pipe, listening)
	t.Cleanup(func() { d.end(t) })
	select {
	case address := <-listening:
		d.client = newClient(t, "http://"+address)
	case <-d.exited:
		t.Fatalf("the daemon ended with %d instead of starting:\n%s", d.code, d.said())
	case <-time.After(startLimit):
		t.Fatalf("the daemon does not listen:\n%s", d.said())
	}
	return d
}

// attend collects stderr, reports the address when it is there, and reaps the process.
func (d *daemon) attend(pipe io.Reader, listening chan<- string) {
	defer close(d.exited)
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d.mu.Lock()
		d.stderr = append(d.stderr, lines.Text())
		d.mu.Unlock()
		var event struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Msg == "listening" {
			listening <- event.Address
		}
	}
	d.exitedAt = time.Now()
	err := d.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.code = -2
		return
	}
	d.code = d.cmd.ProcessState.ExitCode()
}

// said returns the end of the daemon's stderr.
func (d *daemon) said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.stderr[max(0, len(d.stderr)-20):], "\n")
}

// logged returns the number of lines that the daemon has written to stderr.
func (d *daemon) logged() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.stderr)
}

// complaints returns the lines for a person, which are not the log's.
func (d *daemon) complaints() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []string
	for _, line := range d.stderr {
		if !strings.HasPrefix(line, "{") {
			lines = append(lines, line)
		}
	}
	return lines
}

func (d *daemon) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
}

// waitExit returns the exit code, -1 if a signal ended it.
func (d *daemon) waitExit(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-d.exited:
	case <-time.After(limit):
		t.Fatalf("the daemon has not ended after %s:\n%s", limit, d.said())
	}
	return d.code
}

// lives fails the test if the daemon has ended.
func (d *daemon) lives(t *testing.T) {
	t.Helper()
	select {
	case <-d.exited:
		t.Fatalf("the daemon has ended with %d:\n%s", d.code, d.said())
	default:
	}
}

// terminate ends the daemon with SIGTERM, like a supervisor.
func (d *daemon) terminate(t *testing.T) {
	t.Helper()
	d.signal(t, syscall.SIGTERM)
	if code := d.waitExit(t, time.Minute); code != 0 {
		t.Fatalf("exit code %d after SIGTERM:\n%s", code, d.said())
	}
}

// end kills the process if it is still there, even a stopped one.
func (d *daemon) end(t *testing.T) {
	select {
	case <-d.exited:
		return
	default:
	}
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill: %v", err)
	}
	select {
	case <-d.exited:
	case <-time.After(time.Minute):
		t.Errorf("process %d outlives SIGKILL", d.cmd.Process.Pid)
	}
	if t.Failed() {
		t.Logf("the daemon's last words:\n%s", d.said())
	}
}
