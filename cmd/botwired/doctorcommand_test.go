package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/doctor"
)

// The command prints a line for each finding and one for each remedy. Its exit code is that of the
// worst finding.
func TestDoctorCommand(t *testing.T) {
	d := newDaemon(t, nil)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	adjust := func(p *cli.Program) { p.Environ = append(p.Environ, "BOTWIRE_URL=http://x:s3cret@127.0.0.1:9") }
	got := at(t, d, adjust, "doctor", "--upstream-url", "embedded", "--data-dir", dir)
	if got.code != cli.ExitError || got.stderr != "" || strings.Contains(got.stdout, "s3cret") {
		t.Errorf("%+v", got)
	}
	wantLine(t, got.stdout, "failed   BOTWIRE_URL     http://127.0.0.1:9 leads elsewhere: the daemon listens at "+d.address)
	wantLine(t, got.stdout, "                         -> export BOTWIRE_URL=http://"+d.address)
	wantLine(t, got.stdout, "n/a      token file      callers need no token: every account of this machine can read and write the memory through "+d.address+"; auth.token_file keeps the others out")
	var doc struct {
		Result string
		Checks []doctor.Finding
	}
	got = at(t, d, adjust, "doctor", "--upstream-url", "embedded", "--data-dir", dir, "--json")
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || doc.Result != "failed" || len(doc.Checks) < 9 || got.code != cli.ExitError {
		t.Errorf("%v: %+v", err, got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("doctor leaves %v behind, %v", left, err)
	}
}

func wantLine(t *testing.T, text, line string) {
	t.Helper()
	if !strings.Contains("\n"+text, "\n"+line+"\n") {
		t.Errorf("no line %q in\n%s", line, text)
	}
}
