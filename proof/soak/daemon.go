package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// diskReserve is the daemon's journal.disk_reserve, in bytes.
	diskReserve = 16 << 20
	// upstreamTimeout is its upstream.timeout.
	upstreamTimeout = 2 * time.Second
	startLimit      = time.Minute
	// stopLimit is how long the daemon may take to stop, on a busy machine.
	stopLimit = time.Minute
	tailLines = 30
)

// daemon is a child process.
type daemon struct {
	cmd    *exec.Cmd
	base   string
	exited chan struct{}
	err    error // of the process, once it has exited

	mu   sync.Mutex
	tail []string // the last lines of its log
}

// startDaemon runs the daemon on a directory and waits until it listens. An address from
// before is used again.
func startDaemon(ctx context.Context, binary, dir, address, upstreamAddress string) (*daemon, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	d := &daemon{exited: make(chan struct{}), cmd: exec.CommandContext(context.WithoutCancel(ctx), binary, //nolint:gosec // the one that the caller built
		"serve", "--listen", address, "--data-dir", dir, "--upstream-url", "http://"+upstreamAddress, "--log-format", "json",
		"--journal-max-bytes", "64MiB", "--journal-disk-reserve", strconv.Itoa(diskReserve), "--cache-disk", "8MiB",
		"--cache-memory", "4MiB", "--cache-fresh-for", "500ms", "--upstream-timeout", upstreamTimeout.String(), "--upstream-read-patience", "500ms",
		"--upstream-late-window", lateWindow.String(), "--flush-linger", "20ms", "--flush-backoff-initial", "50ms",
		"--flush-backoff-max", "1s", "--flush-drain-timeout", "1s",
	)}
	d.cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	d.cmd.SysProcAttr = diesWithParent()
	pipe, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	listening := make(chan string, 1)
	go d.attend(pipe, listening)
	select {
	case at := <-listening:
		d.base = "http://" + at
		return d, nil
	case <-d.exited:
		return nil, fmt.Errorf("the daemon ended instead of starting (%w):\n%s", d.err, d.log())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), d.kill())
	case <-time.After(startLimit):
		return nil, errors.Join(fmt.Errorf("the daemon does not listen:\n%s", d.log()), d.kill())
	}
}

// attend reads the log, reports the address when it is there, and reaps the process.
func (d *daemon) attend(pipe io.Reader, listening chan<- string) {
	defer close(d.exited)
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		d.mu.Lock()
		d.tail = append(d.tail[max(0, len(d.tail)-tailLines):], lines.Text())
		d.mu.Unlock()
		var event struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Msg == "listening" {
			listening <- event.Address
		}
	}
	d.err = d.cmd.Wait()
}

func (d *daemon) log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.tail, "\n")
}

func (d *daemon) address() string { return strings.TrimPrefix(d.base, "http://") }

// alive is an error if the process has ended by itself.
func (d *daemon) alive() error {
	select {
	case <-d.exited:
		return fmt.Errorf("the daemon ended by itself (%w):\n%s", d.err, d.log())
	default:
		return nil
	}
}

// kill ends the process as a crash does.
func (d *daemon) kill() error {
	err := d.cmd.Process.Kill()
	<-d.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// terminate ends the process as a supervisor does: it stops by itself, with 0.
func (d *daemon) terminate() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, d.alive())
	}
	select {
	case <-d.exited:
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("the daemon has not stopped %s after SIGTERM:\n%s", stopLimit, d.log()), d.kill())
	}
	if d.err != nil {
		return fmt.Errorf("the daemon was to stop, and ended with %w:\n%s", d.err, d.log())
	}
	return nil
}

// figures are what must not grow.
type figures struct{ resident, descriptors, goroutines int64 }

// measure measures the process. Where the system has no /proc, only goroutines are known.
func (d *daemon) measure(ctx context.Context, c *caller) (f figures, err error) {
	proc := fmt.Sprintf("/proc/%d", d.cmd.Process.Pid)
	if fds, err := os.ReadDir(filepath.Join(proc, "fd")); err == nil {
		f.descriptors = int64(len(fds))
	}
	if text, err := os.ReadFile(filepath.Join(proc, "status")); err == nil {
		f.resident = figure(string(text), "VmRSS:") << 10
	}
	_, metrics, err := c.do(ctx, "GET", "/_botwired/metrics", nil)
	f.goroutines = figure(string(metrics), "go_goroutines")
	return f, err
}

// figure is the number behind a name at the beginning of a line, 0 if there is none.
func figure(text, name string) int64 {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		if n, err := strconv.ParseFloat(fields[0], 64); err == nil {
			return int64(n)
		}
	}
	return 0
}
