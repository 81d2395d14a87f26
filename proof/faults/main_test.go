//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// builtBinary is the daemon under test, built once from the source beside these tests.
var builtBinary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "botwired-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	if err := build(filepath.Join(dir, "botwired")); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else if code = m.Run(); code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func build(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "../../cmd/botwired")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the daemon: %w\n%s", err, out)
	}
	builtBinary = path
	return nil
}

// eventually asks until cond returns nil, and fails the test with cond's last error
// when that takes longer than limit. Another process offers nothing to wait for but its
// answers.
func eventually(t *testing.T, limit time.Duration, what string, cond func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s: %v", limit, what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// drainLimit ends a hang: how fast a daemon drains on a busy machine is no part of any
// test.
const drainLimit = 4 * time.Minute

// slack returns the time that a busy machine adds to a bound of the contract: a
// multiple of the time that a process takes now that does nothing. On an idle machine
// it is little.
func slack(t *testing.T) time.Duration {
	t.Helper()
	var slowest time.Duration
	for range 3 {
		began := time.Now()
		if out, err := exec.Command(builtBinary, "version").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		slowest = max(slowest, time.Since(began))
	}
	return 10 * slowest
}

// needRoot skips a test that needs root.
func needRoot(t *testing.T, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("%s needs root", what)
	}
}
