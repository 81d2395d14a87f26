//go:build faults && linux

package faults

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// openFiles returns the number of descriptors that the daemon has.
func (d *daemon) openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// limitFiles changes how many files the running daemon may have open: the soft limit.
func (d *daemon) limitFiles(t *testing.T, soft uint64) {
	t.Helper()
	var limit syscall.Rlimit
	set := func(next *syscall.Rlimit, now *syscall.Rlimit) {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(d.Pid()), syscall.RLIMIT_NOFILE,
			uintptr(unsafe.Pointer(next)), uintptr(unsafe.Pointer(now)), 0, 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	set(nil, &limit)
	limit.Cur = soft
	set(&limit, nil)
}

// crowd opens connections that say nothing, and returns them.
func crowd(t *testing.T, d *daemon, n int) (conns []net.Conn) {
	t.Helper()
	for range n {
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	t.Cleanup(func() { disperse(conns) })
	return conns
}

func disperse(conns []net.Conn) {
	for _, conn := range conns {
		_ = conn.Close() // a second time too
	}
}

// More callers connect than the process may have files open. The journal keeps the
// descriptors that it needs for its logs and tables: writes are taken and flushed (contract 2).
func TestCrowdOfConnections(t *testing.T) {
	const limit = 600
	up := newUpstream(t)
	d := startBy(t, []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, limit), builtBinary}, t.TempDir(), up)
	l := newLedger()
	if status, answer := l.put(d.client, "first", 100); status != http.StatusOK { // by a connection that stays
		t.Fatalf("PUT: %d %.200s", status, answer)
	}
	crowd(t, d, limit+100)
	for n := range 400 { // 24 MB: the log and the tables change more than once
		if status, answer := l.put(d.client, fmt.Sprint("k-", n%20), 60_000); status != http.StatusOK {
			t.Fatalf("PUT %d in a crowd: %d %.200s", n, status, answer)
		}
	}
	if err := newClient(t, d.base).expect(http.MethodGet, "/_botwired/livez", http.StatusOK); err != nil {
		t.Errorf("a newcomer behind the crowd: %v", err)
	}
	d.drained(t, drainLimit)
	t.Logf("%d files are open of %d allowed", d.openFiles(t), limit)
	if lines := d.saidOf("descriptor"); len(lines) > 0 {
		t.Errorf("the journal had to wait: %q", lines)
	}
	l.audit(t, "the daemon", d.client)
	l.audit(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}

// More callers than may connect begin a body and stop. They give way to a newcomer, whoever
// reads their bodies: nobody waits for their deadlines (contract 16).
func TestCrowdOfStalledBodies(t *testing.T) {
	const limit = 400
	up := newUpstream(t)
	d := startBy(t, []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, limit), builtBinary}, t.TempDir(), up)
	for i, conn := range crowd(t, d, limit) {
		body := [...]string{
			"Content-Length: 100\r\n\r\n{", "Content-Length: 100000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"va",
		}[i%3]
		_, _ = fmt.Fprintf(conn, "PUT /memory/n/k HTTP/1.1\r\nHost: 127.0.0.1\r\n%s", body) // it may have given way
	}
	const deadline = time.Minute // of a body
	began := time.Now()
	if err := newClient(t, d.base).expect(http.MethodGet, "/_botwired/livez", http.StatusOK); err != nil {
		t.Errorf("a newcomer behind the crowd: %v", err)
	}
	if took := time.Since(began); took > deadline/2 {
		t.Errorf("a newcomer waited for %s", took)
	}
	d.terminate(t)
}

// The process has no descriptor left. The daemon does not take this
// for a failed disk: it lives, acknowledges nothing that is not durable, and goes on as soon as it can
// (contract 2).
func TestNoDescriptorLeft(t *testing.T) {
	up := newUpstream(t)
	up.down(t)
	dir := t.TempDir()
	d := start(t, dir, up)
	l := newLedger()
	writers := l.write(t, d.client, "w", 4, 10, 20_000)
	eventually(t, time.Minute, "load", func() error { return l.reached(200) })
	d.limitFiles(t, 3)
	eventually(t, time.Minute, "the journal says why it waits", func() error {
		d.lives(t)
		if len(d.saidOf("no file descriptor is free")) == 0 {
			return errors.New("it has not said so")
		}
		return nil
	})
	time.Sleep(2 * time.Second) // the mark, and the logs, are due
	d.lives(t)
	stood := l.answered(http.StatusOK)
	d.limitFiles(t, 1<<10)
	eventually(t, time.Minute, "writes go on", func() error { d.lives(t); return l.reached(stood + 500) })
	writers.end()
	l.audit(t, "the daemon", d.client)
	d.signal(t, syscall.SIGKILL)
	d.waitExit(t, time.Minute)
	soundAfterwards(t, dir, up, l)
}

// saidOf returns the lines of stderr with a text in them.
func (d *daemon) saidOf(text string) (lines []string) {
	for _, line := range d.Lines() {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A shell's soft limit does not bind the daemon: only the hard one does.
func TestSoftLimitIsRaised(t *testing.T) {
	const soft, hard = 256, 700
	d := startBy(t, []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -Sn %d && ulimit -Hn %d && exec "$0" "$@"`, soft, hard), builtBinary}, t.TempDir(), newUpstream(t))
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", d.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	const raised = hard - 1 // as Go's runtime does it
	for line := range strings.Lines(string(limits)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok && strings.Fields(rest)[0] != fmt.Sprint(raised) {
			t.Errorf("the daemon may open %s files, and could have %d", strings.Fields(rest)[0], hard)
		}
	}
	if said := d.saidOf("the limit of open files bounds the connections"); len(said) != 1 || !strings.Contains(said[0], fmt.Sprint(raised)) {
		t.Errorf("the bound is not that of the hard limit: %q", said)
	}
	d.terminate(t)
}
