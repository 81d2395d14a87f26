package main

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

// testReadyProbe checks the binary's exit code, as a probe does.
func testReadyProbe(t *testing.T, program string) {
	c := startChild(t, program, t.TempDir(), freeAddress(t), newMemoryService(t).up().url())
	probe := func(args ...string) error {
		cmd := exec.CommandContext(t.Context(), program, append(args, "--listen", c.address)...)
		cmd.Env = []string{}
		return cmd.Run()
	}
	for _, args := range [][]string{{"status"}, {"status", "--ready"}, {"status", "--live"}} {
		if err := probe(args...); err != nil {
			t.Errorf("%v while the daemon is ready: %v", args, err)
		}
	}
	c.kill()
	for _, args := range [][]string{{"status"}, {"status", "--ready"}, {"status", "--live"}} {
		var failed *exec.ExitError
		if err := probe(args...); !errors.As(err, &failed) || failed.ExitCode() != cli.ExitError {
			t.Errorf("%v with no daemon: %v", args, err)
		}
	}
}
