package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
)

// statusCommand runs "botwired status" against the daemon.
func (c *child) statusCommand(program string, flags ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	cmd, errs := command(ctx, c.t, program, append([]string{"status", "--listen", c.address}, flags...)...)
	out := &safeBuffer{}
	cmd.Stdout = out
	_ = cmd.Run() // the test checks the exit code
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// contract 3: while every write is refused, the status says so first, the daemon is not ready, and the
// log has one line. It has another when that is over.
func testFullJournalIsTold(t *testing.T, program string) {
	service := newMemoryService(t)
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url(), "--journal-max-bytes", "4KiB")
	if code, out, errs := c.statusCommand(program); code != cli.ExitOK {
		t.Errorf("status of a new daemon: exit code %d: %s%s", code, out, errs)
	}
	refused := 0
	for i := range 40 {
		status, _, err := c.ask(http.MethodPut, fmt.Sprint("/memory/n/k", i), `{"value":"v"}`)
		no(t, err)
		if status == http.StatusInsufficientStorage {
			refused++
		}
	}
	code, out, errs := c.statusCommand(program)
	if code != cli.ExitOK || !strings.HasPrefix(out, "Writes are refused: ") || !strings.Contains(out, "(began at 20") || !strings.Contains(out, "journal.max_bytes") {
		t.Errorf("after %d refused writes: exit code %d: %s%s", refused, code, out, errs)
	}
	if code, out, errs = c.statusCommand(program, "--ready"); code != cli.ExitError || !strings.Contains(errs, "not ready") {
		t.Errorf("after %d refused writes: --ready: exit code %d: %s%s", refused, code, out, errs)
	}
	service.up()
	eventually(t, func() error {
		if code, out, errs := c.statusCommand(program); code != cli.ExitOK || strings.HasPrefix(out, "Writes are refused") {
			return fmt.Errorf("after the flush: exit code %d: %s%s", code, out, errs)
		}
		if !strings.Contains(c.stderr.String(), "the journal takes writes again") {
			return errors.New("the log does not say that it is over")
		}
		return nil
	})
	for _, line := range []string{"the journal refuses writes", "the journal takes writes again"} {
		if n := strings.Count(c.stderr.String(), line); n != 1 {
			t.Errorf("%q is logged %d times: %s", line, n, c.stderr)
		}
	}
}
