package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/doctor"
	"github.com/botwired/botwired/journal"
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

// doctor says of a data directory that belongs to another upstream what serve says.
func TestDoctorOfAnotherUpstreamsDirectory(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o700))
	hold := func(write bool) {
		t.Helper()
		j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, journalDir)})
		check(t, err)
		b := &boundDirectory{t: t, dir: dir, j: j}
		check(t, b.to(oldURL))
		if write {
			_, err = j.Append(journal.NewWrite{ID: journal.ID{Namespace: "n", Key: "k"}, Op: journal.Put, Value: "v"})
			check(t, err)
		}
		check(t, j.Close())
	}
	examined := func(url string) string {
		t.Helper()
		got := botwired(t, "doctor", "--upstream-url", url, "--data-dir", dir, "--listen", "127.0.0.1:1")
		for line := range strings.Lines(got.stdout) {
			if strings.Contains(line, "data directory") {
				return strings.TrimSuffix(line, "\n")
			}
		}
		t.Fatalf("no line about the data directory: %+v", got)
		return ""
	}
	hold(false)
	if got := examined(newURL); !strings.HasPrefix(got, "ok ") {
		t.Errorf("it holds nothing, and serve would take it: %s", got)
	}
	hold(true)
	if got := examined(oldURL); !strings.HasPrefix(got, "ok ") {
		t.Errorf("with its own upstream: %s", got)
	}
	served := botwired(t, "serve", "--upstream-url", newURL, "--data-dir", dir, "--listen", "127.0.0.1:0")
	got := examined(newURL)
	_, said, _ := strings.Cut(served.stderr, "upstream.url is ")
	if _, text, found := strings.Cut(got, "upstream.url is "); !found || !strings.HasPrefix(got, "failed ") || !strings.Contains(said, strings.TrimSpace(text)) {
		t.Errorf("doctor says %q, and serve %q", got, served.stderr)
	}
	check(t, os.WriteFile(filepath.Join(dir, "UPSTREAM"), []byte("nonsense\n"), 0o600))
	if got := examined(oldURL); !strings.HasPrefix(got, "failed ") || !strings.Contains(got, "the file UPSTREAM names no upstream") {
		t.Errorf("the file is damaged: %s", got)
	}
}
