package main

import (
	"encoding/json"
	"testing"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/drill"
)

func TestDrillRefuses(t *testing.T) {
	wantFailure(t, at(t, newDaemon(t, nil), nil, "drill", "--for", "1s"), cli.ExitUsage, "--for", "5s", "1h")
}

// testDrill runs the real program's drill, and wants no findings.
func testDrill(t *testing.T, program string) {
	cmd, stderr := command(t.Context(), t, program, "drill", "--for", "5s", "--json")
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	stdout, err := cmd.Output()
	if err != nil || stderr.String() != "" {
		t.Errorf("%v: %s", err, stderr)
	}
	var a drill.Audit
	if err := json.Unmarshal(stdout, &a); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if !a.OK || len(a.Phases) != 8 || a.Settled == 0 || a.Superseded == 0 {
		t.Errorf("%s", stdout)
	}
}
