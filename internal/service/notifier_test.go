//go:build unix

package service_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/botwired/botwired/internal/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager receives what is sent to a socket.
func manager(t *testing.T, socket string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	return conn
}

func receive(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	buf := make([]byte, 1<<10)
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func notifier() *service.Notifier {
	in := service.Inherit()
	return in.Notifier(slog.New(slog.DiscardHandler))
}

func TestNotifications(t *testing.T) {
	sockets := []string{filepath.Join(t.TempDir(), "notify")}
	if runtime.GOOS == "linux" {
		sockets = append(sockets, fmt.Sprintf("@botwired-test-%d", os.Getpid())) // an abstract one
	}
	for _, socket := range sockets {
		t.Run(socket[:1], func(t *testing.T) {
			conn := manager(t, socket)
			n := notifier()
			n.Tell(service.Ready, service.Status("one\ntwo"), service.Extend(time.Second))
			if got := receive(t, conn); got != "READY=1\nSTATUS=one two\nEXTEND_TIMEOUT_USEC=1000000" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A manager that is gone, or does not read, delays nobody for long.
func TestManagersThatDoNotListen(t *testing.T) {
	dir := t.TempDir()
	for name, prepare := range map[string]func(t *testing.T){
		"none":       func(t *testing.T) { t.Setenv("NOTIFY_SOCKET", "") },
		"gone":       func(t *testing.T) { t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "gone")) },
		"no socket":  func(t *testing.T) { t.Setenv("NOTIFY_SOCKET", dir) },
		"too long":   func(t *testing.T) { t.Setenv("NOTIFY_SOCKET", "/"+strings.Repeat("x", 200)) },
		"not a path": func(t *testing.T) { t.Setenv("NOTIFY_SOCKET", "vsock:2:1") },
		"no reader":  func(t *testing.T) { manager(t, filepath.Join(dir, "unread")) },
	} {
		t.Run(name, func(t *testing.T) {
			prepare(t)
			n := notifier()
			filled := time.After(10 * time.Second)
			for longest, began := time.Duration(0), time.Now(); longest < 500*time.Millisecond; began = time.Now() {
				n.Tell(service.Alive)
				if longest = time.Since(began); longest > 5*time.Second {
					t.Errorf("a notification took its caller %s", longest)
				}
				select {
				case <-filled:
					t.Fatal("nothing was ever full")
				default:
				}
				if name != "no reader" {
					break
				}
			}
		})
	}
}

// Variables that are invalid, or for another process, are ignored.
func TestVariablesForOthers(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"another process's": {"LISTEN_PID": "1", "LISTEN_FDS": "1", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
		"malformed":         {"LISTEN_PID": "me", "LISTEN_FDS": "many", "WATCHDOG_USEC": "often"},
		"negative":          {"LISTEN_PID": fmt.Sprint(os.Getpid()), "LISTEN_FDS": "-1", "WATCHDOG_USEC": "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID", "NOTIFY_SOCKET"} {
				t.Setenv(name, env[name])
			}
			in := service.Inherit()
			if len(in.Sockets) > 0 || in.Watchdog != 0 {
				t.Errorf("inherited %+v", in)
			}
			if (in.Complaint == nil) != (name == "another process's") {
				t.Errorf("complains: %v", in.Complaint)
			}
			if _, there := os.LookupEnv("LISTEN_FDS"); there {
				t.Error("children would inherit LISTEN_FDS")
			}
		})
	}
}

func TestOutside(t *testing.T) {
	got := service.Outside([]string{"A=1", "NOTIFY_SOCKET=/n", "WATCHDOG_USEC=1", "LISTEN_FDS=1", "STATE_DIRECTORY=/s"})
	if fmt.Sprint(got) != "[A=1 STATE_DIRECTORY=/s]" {
		t.Errorf("got %v", got)
	}
}
