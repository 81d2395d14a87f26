//go:build faults && linux

package faults

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A disk hangs: the daemon gives its service manager no sign of life any more, though it answers
// reads. An upstream that is away all the time costs it none, and once the disk goes on, they come
// again, and the write that hung is acknowledged.
func TestHangingDisk(t *testing.T) {
	const within = 2 * time.Second
	up := newUpstream(t)
	up.down(t)
	notify, signs := watchdogOf(t)
	d := startBy(t, []string{"env", "NOTIFY_SOCKET=" + notify, fmt.Sprintf("WATCHDOG_USEC=%d", within.Microseconds()), builtBinary}, t.TempDir(), up)
	if status, _, err := d.put("before", "v"); status != http.StatusOK {
		t.Fatalf("put: %d, %v", status, err)
	}
	alive := func(more int64) {
		t.Helper()
		least := signs.Load() + more
		eventually(t, time.Minute, "signs of life", func() error {
			if n := signs.Load(); n < least {
				return fmt.Errorf("%d of %d:\n%s", n, least, d.Tail())
			}
			return nil
		})
	}
	alive(3)
	tr := inject(t, d.Pid(), "fdatasync,fsync,sync_file_range:delay_enter=600000000", "")
	hung := make(chan error, 1)
	go func() {
		status, _, err := d.put("hung", "v")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		hung <- err
	}()
	eventually(t, time.Minute, "complaint", func() error {
		if !strings.Contains(strings.Join(d.Lines(), "\n"), "the disk has not finished one write") {
			return fmt.Errorf("none:\n%s", d.Tail())
		}
		return nil
	})
	before := signs.Load()
	time.Sleep(within) // the service manager would have ended the daemon by now
	if n := signs.Load(); n != before {
		t.Errorf("%d signs of life while the disk hangs", n-before)
	}
	select {
	case err := <-hung:
		t.Errorf("the write was answered while the disk hung: %v", err)
	default:
	}
	tr.end(t)
	if err := <-hung; err != nil {
		t.Errorf("the write that hung: %v", err)
	}
	alive(2)
}

// watchdogOf is a service manager's socket, and the number of signs of life that it has received.
func watchdogOf(t *testing.T) (socket string, signs *atomic.Int64) {
	t.Helper()
	dir, err := os.MkdirTemp("", "botwired") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, signs = filepath.Join(dir, "notify"), new(atomic.Int64)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for text := make([]byte, 1024); ; {
			n, err := conn.Read(text)
			if err != nil {
				return
			}
			if strings.Contains(string(text[:n]), "WATCHDOG=1") {
				signs.Add(1)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return socket, signs
}
