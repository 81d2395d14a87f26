package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// resident returns the current and the largest memory of a process, in bytes.
func (c *child) resident(t *testing.T) (now, most int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &now)
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &most)
	}
	return now << 10, most << 10
}

// fillUp writes tiny values to new keys until the journal is full.
func (c *child) fillUp(t *testing.T) (taken int) {
	t.Helper()
	const callers = 32
	counts, errs := make([]int, callers), make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := i; errs[i] == nil; n += callers {
				status, _, err := c.ask(http.MethodPut, fmt.Sprintf("/memory/n/key%d", n), `{"value":"v"}`)
				if err != nil || status == http.StatusInsufficientStorage {
					errs[i] = err
					return
				}
				if status != http.StatusOK {
					errs[i] = fmt.Errorf("status %d", status)
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, n := range counts {
		taken += n
	}
	return taken
}

// journal.max_bytes limits memory too: tiny writes until it is full grow the process by at most twice
// as much, and so does a restart.
func testPendingMemory(t *testing.T, program string) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	const budget = 32 << 20
	dir := t.TempDir()
	start := func(budget int) *child {
		return startChild(t, program, dir, freeAddress(t), "http://127.0.0.1:9", "--journal-max-bytes", fmt.Sprint(budget))
	}
	c := start(budget)
	idle, _ := c.resident(t)
	taken := c.fillUp(t)
	_, most := c.resident(t)
	if grown := most - idle; grown > 2*budget {
		t.Errorf("%d writes, which the budget of %d allows, take %d bytes of memory", taken, budget, grown)
	}
	c.kill()
	c = start(2 * budget) // a full daemon is not ready
	eventually(t, func() error {
		if n, err := c.pending(); err != nil || n != taken {
			return fmt.Errorf("%d are pending, %w", n, err)
		}
		return nil
	})
	if _, most := c.resident(t); most-idle > 2*budget {
		t.Errorf("after a restart they take %d bytes", most-idle)
	}
}
