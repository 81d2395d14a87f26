package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/botwired/botwired/internal/child"
	"github.com/botwired/botwired/internal/faulty"
)

const (
	// diskReserve is the daemon's journal.disk_reserve, in bytes.
	diskReserve = 16 << 20
	// upstreamTimeout is its upstream.timeout.
	upstreamTimeout = 2 * time.Second
	// stopLimit bounds how long the daemon may take to stop. It ends a hang: a busy machine
	// is slow.
	stopLimit = 4 * time.Minute
)

// daemon is a child process.
type daemon struct{ *child.Process }

// startDaemon runs the daemon on a directory and waits until it listens. An address from
// before is used again.
func startDaemon(ctx context.Context, binary, dir, address, upstreamAddress string, settings ...string) (*daemon, error) {
	if address == "" {
		address = faulty.OwnHost() + ":0"
	}
	process, err := child.Start(ctx, dir, append([]string{
		binary, "serve", "--listen", address, "--data-dir", dir, "--upstream-url", "http://" + upstreamAddress,
		"--journal-max-bytes", "64MiB", "--journal-disk-reserve", strconv.Itoa(diskReserve), "--cache-disk", "8MiB",
		"--cache-memory", "4MiB", "--cache-fresh-for", "500ms", "--upstream-timeout", upstreamTimeout.String(),
		"--upstream-late-window", lateWindow.String(), "--flush-linger", "20ms", "--flush-drain-timeout", "1s",
	}, settings...)...)
	return &daemon{process}, err
}

// figures are those of a process that must not grow.
type figures struct{ resident, descriptors, goroutines int64 }

// measure measures the process. Where the system has no /proc, only goroutines are known.
func (d *daemon) measure(ctx context.Context, c *caller) (f figures, err error) {
	proc := fmt.Sprintf("/proc/%d", d.Pid())
	if fds, err := os.ReadDir(filepath.Join(proc, "fd")); err == nil {
		f.descriptors = int64(len(fds))
	}
	if text, err := os.ReadFile(filepath.Join(proc, "status")); err == nil {
		f.resident = figure(string(text), "VmRSS:") << 10
	}
	_, metrics, err := c.do(ctx, http.MethodGet, "/_botwired/metrics", nil)
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
