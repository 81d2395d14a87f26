//go:build faults && linux

package faults

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// memoryOf is what a namespace should hold.
type memoryOf map[string]string

// An agent wrecks 1,000 entries in an outage, and deletes 500 of them. One command takes that back, another
// takes the undo back, and each goes on after a kill amid it.
func TestUndoOfANamespace(t *testing.T) {
	up, dir := newUpstream(t), t.TempDir()
	d := start(t, dir, up)
	good, wrecked := memoryOf{}, memoryOf{}
	for i := range 1000 {
		key := fmt.Sprint("u-", i)
		good[key] = fmt.Sprintf("good %d %s", i, strings.Repeat("é", i%300))
		wrecked[key] = strings.Repeat("x", 1+i%7)
		if i%2 == 0 {
			wrecked[key] = "" // deleted
		}
	}
	good.write(t, d.client)
	d.drained(t, drainLimit)
	atFirst := now()
	up.down(t)
	wrecked.write(t, d.client)
	whenWrecked := now()
	wrecked.check(t, "the daemon", d.client)
	d = undo(t, d, dir, up, atFirst)
	good.check(t, "after the undo, the daemon", d.client)
	d = undo(t, d, dir, up, whenWrecked)
	wrecked.check(t, "after the undo of the undo, the daemon", d.client)
	d = undo(t, d, dir, up, atFirst, "--all-authors") // of the agent and of the undo
	up.up(t)
	d.drained(t, drainLimit)
	good.check(t, "at last, the daemon", d.client)
	good.check(t, "upstream", newClient(t, up.url()))
	d.terminate(t)
}

// now returns a time in Unix seconds that nothing was written at.
func now() string {
	time.Sleep(5 * time.Millisecond)
	at := time.Now()
	time.Sleep(5 * time.Millisecond)
	return strconv.FormatFloat(float64(at.UnixMicro())/1e6, 'f', 6, 64)
}

// undo takes the namespace back to a time. It kills the daemon amid it, and tells the next one the same.
func undo(t *testing.T, d *daemon, dir string, up *fakeUpstream, before string, flags ...string) *daemon {
	t.Helper()
	command := func() *exec.Cmd {
		args := append([]string{"undo", namespace, "--before", before, "--yes", "--listen", strings.TrimPrefix(d.URL(), "http://")}, flags...)
		return exec.CommandContext(t.Context(), builtBinary, args...)
	}
	first, told := command(), &bytes.Buffer{}
	first.Stdout, first.Stderr = told, told
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	begun := func() error {
		_, answer, err := d.do(http.MethodGet, "/_botwired/pending?limit=10000", nil)
		if err == nil && !strings.Contains(string(answer), `"author":"botwired"`) {
			err = fmt.Errorf("no entry is undone: %s %.300s", told, answer)
		}
		return err
	}
	eventually(t, 10*time.Second, "the undo begins", begun)
	time.Sleep(rand.N(20 * time.Millisecond))
	d.signal(t, syscall.SIGKILL)
	d.waitExit(t, time.Minute)
	if err := first.Wait(); err == nil {
		t.Log("the undo was faster than the kill")
	}
	d = start(t, dir, up)
	eventually(t, time.Minute, "the journal is read", func() error { _, err := d.pending(); return err })
	said, err := command().CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	t.Logf("%s", said)
	return d
}

// write makes a namespace as it should be.
func (m memoryOf) write(t *testing.T, to *client) {
	t.Helper()
	var writers sync.WaitGroup
	free := make(chan struct{}, 32)
	for key, value := range m {
		free <- struct{}{}
		writers.Go(func() {
			defer func() { <-free }()
			status, answer, err := to.put(key, value)
			if value == "" {
				status, answer, err = to.do(http.MethodDelete, entryPath(key), nil)
			}
			if err != nil || status != http.StatusOK {
				t.Errorf("%s: %d %.200s, %v", key, status, answer, err)
			}
		})
	}
	writers.Wait()
}

// check compares a namespace with what it should be.
func (m memoryOf) check(t *testing.T, who string, of *client) {
	t.Helper()
	wrong := 0
	for key, want := range m {
		if got, err := of.get(key); err != nil || got != want {
			if wrong++; wrong < 5 {
				t.Errorf("%s: %s is %.60q, want %.60q: %v", who, key, got, want, err)
			}
		}
	}
	if wrong > 0 {
		t.Fatalf("%s: %d of %d entries are wrong", who, wrong, len(m))
	}
}
