//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// manager acts as a service manager: it receives a service's notifications, and passes its own sockets
// to the service.
type manager struct {
	t      *testing.T
	notify *net.UnixConn
	socket string
	env    []string

	mu     sync.Mutex
	told   []string            // notifications without times
	passed map[string]*os.File // by name
}

func newManager(t *testing.T, env ...string) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "botwired") // a socket's path must be short
	no(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &manager{t: t, socket: filepath.Join(dir, "notify"), env: env, passed: map[string]*os.File{}}
	m.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	no(t, err)
	done := make(chan struct{})
	go func() { defer close(done); m.receive() }()
	t.Cleanup(func() { m.notify.Close(); <-done })
	return m
}

func (m *manager) receive() {
	text := make([]byte, 4096)
	for {
		n, err := m.notify.Read(text)
		if err != nil {
			return
		}
		m.mu.Lock()
		m.told = append(m.told, string(text[:n]))
		m.mu.Unlock()
	}
}

// listen opens a socket of the manager.
func (m *manager) listen(network, address string) net.Listener {
	m.t.Helper()
	l, err := new(net.ListenConfig).Listen(m.t.Context(), network, address)
	no(m.t, err)
	m.t.Cleanup(func() { l.Close() })
	f, err := l.(interface{ File() (*os.File, error) }).File()
	no(m.t, err)
	m.passed["botwired.socket"] = f
	return l
}

// command returns a command with the manager's environment and sockets. A shell sets the process id
// that they are for, and then execs the command.
func (m *manager) command(program string, args ...string) (*exec.Cmd, *safeBuffer) {
	cmd, stderr := command(m.t.Context(), m.t, "/bin/sh", append([]string{"-c", `LISTEN_PID=$$ WATCHDOG_PID=$$; export LISTEN_PID WATCHDOG_PID; exec "$0" "$@"`, program}, args...)...)
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name, f := range m.passed {
		names, cmd.ExtraFiles = append(names, name), append(cmd.ExtraFiles, f)
	}
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+m.socket)
	cmd.Env = append(cmd.Env, m.env...)
	if len(names) > 0 {
		cmd.Env = append(cmd.Env, "LISTEN_FDS="+strconv.Itoa(len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	}
	return cmd, stderr
}

// begin starts a daemon and does not wait until it listens.
func (m *manager) begin(program, address string, args ...string) *child {
	m.t.Helper()
	c := &child{t: m.t, address: address, exited: make(chan struct{}), client: &http.Client{Timeout: time.Minute}}
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		c.client.Transport = unixTransport(path)
	}
	c.cmd, c.stderr = m.command(program, append([]string{"serve"}, args...)...)
	c.begin()
	return c
}

// ready waits until the daemon has said so the given number of times.
func (m *manager) ready(c *child, times int) {
	m.t.Helper()
	eventually(m.t, func() error {
		select {
		case <-c.exited:
			m.t.Fatalf("it ended: %s", c.stderr)
		default:
		}
		if got := m.count("READY=1"); got < times {
			return fmt.Errorf("%d of %d times READY=1: %q", got, times, m.all())
		}
		return nil
	})
}

func (m *manager) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.told...)
}

func (m *manager) count(what string) (n int) {
	for _, each := range m.all() {
		if strings.Contains("\n"+each+"\n", "\n"+what+"\n") {
			n++
		}
	}
	return n
}
