package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/journal"
)

// journalOf creates a data directory with some pending writes, and returns its open journal.
func journalOf(t *testing.T) (dataDir string, j *journal.Journal) {
	t.Helper()
	dataDir = t.TempDir()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dataDir, "journal")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		id := journal.ID{Namespace: "ns", Key: fmt.Sprint("k", i)}
		if _, err := j.Append(journal.NewWrite{ID: id, Op: journal.Put, Value: "v"}); err != nil {
			t.Fatal(err)
		}
	}
	return dataDir, j
}

func closed(t *testing.T) string {
	t.Helper()
	dataDir, j := journalOf(t)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return dataDir
}

// cutLogs truncates a journal's logs to a percentage of their length.
func cutLogs(t *testing.T, dataDir string, percent int) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dataDir, "journal", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		written := len(bytes.TrimRight(text, "\x00")) // preallocated space reads as zeros
		if err := os.Truncate(log, int64(written*percent/100)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecoverLeavesASoundJournal(t *testing.T) {
	dataDir := closed(t)
	wantOutput(t, botwired(t, "recover", "--data-dir", dataDir), "the journal is sound; nothing was changed\n")
	if names, err := os.ReadDir(dataDir); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestRecoverRefuses(t *testing.T) {
	dataDir, j := journalOf(t)
	wantFailure(t, botwired(t, "recover", "--data-dir", dataDir), cli.ExitError, "data_dir = ", "a running botwired uses it")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, botwired(t, "recover", "--data-dir", t.TempDir()), cli.ExitError, "there is no journal in it")
	format := filepath.Join(dataDir, "journal", "FORMAT")
	if err := os.WriteFile(format, []byte("botwired journal 9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, botwired(t, "recover", "--data-dir", dataDir), cli.ExitError, "version 9")
}

// contract 4: the start names the command, the command says what is missing, and the next start works.
func TestRecoverFromACutLog(t *testing.T) {
	dataDir := closed(t)
	cutLogs(t, dataDir, 50)
	wantFailure(t, botwired(t, "serve", "--data-dir", dataDir, "--listen", "127.0.0.1:0", "--upstream", "embedded"),
		cli.ExitError, dataDir, "journal corrupt", "botwired recover")
	got := botwired(t, "recover", "--data-dir", dataDir)
	if got.code != cli.ExitMissing || !strings.Contains(got.stderr, "not everything could be salvaged") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	for _, part := range []string{"damaged copy  " + filepath.Join(dataDir, "journal.damaged-"), "pending writes  2 ", "3 to 5: nothing is known"} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("stdout lacks %q:\n%s", part, got.stdout)
		}
	}
	wantOutput(t, botwired(t, "recover", "--data-dir", dataDir), "the journal is sound; nothing was changed\n")
}

// contract 4: an old version of a record may be damaged without any effect on readers, because the log
// has a newer one. A recovery, which a start makes by itself, repairs the journal without loss.
func TestRecoverFromDamageThatTheLogHides(t *testing.T) {
	from, j := journalOf(t)
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	var dataDir string           // as a killed process leaves it
	eventually(t, func() error { // Pebble may remove an obsolete file
		dataDir = t.TempDir()
		return os.CopyFS(filepath.Join(dataDir, "journal"), os.DirFS(filepath.Join(from, "journal")))
	})
	tables, err := filepath.Glob(filepath.Join(dataDir, "journal", "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatal(tables, err)
	}
	table, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	copy(table, strings.Repeat("x", 64))
	if err := os.WriteFile(tables[0], table, 0o600); err != nil {
		t.Fatal(err)
	}
	got := botwired(t, "recover", "--data-dir", dataDir)
	if got.code != cli.ExitOK || !strings.Contains(got.stdout, "pending writes  5         0\n") {
		t.Errorf("exit code %d, stderr %q\n%s", got.code, got.stderr, got.stdout)
	}
	wantOutput(t, botwired(t, "recover", "--data-dir", dataDir), "the journal is sound; nothing was changed\n")
}

func TestRecoverAsJSON(t *testing.T) {
	dataDir := closed(t)
	if err := os.Remove(filepath.Join(dataDir, "journal", "MARK")); err != nil {
		t.Fatal(err)
	}
	got := botwired(t, "recover", "--data-dir", dataDir, "--json")
	var r journal.Recovery
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != cli.ExitMissing {
		t.Fatalf("exit code %d, stderr %q, %v", got.code, got.stderr, err)
	}
	if r.Healthy || r.Salvaged.Pending != 5 || !strings.Contains(r.Found, "MARK") || r.Complete() || len(r.Missing.Files) != 1 {
		t.Errorf("%+v", r)
	}
}

// Losing a file that only Pebble needs loses no records.
func TestRecoverEverything(t *testing.T) {
	dataDir := closed(t)
	markers, err := filepath.Glob(filepath.Join(dataDir, "journal", "marker.manifest.*"))
	if err != nil || len(markers) != 1 {
		t.Fatal(markers, err)
	}
	if err := os.Remove(markers[0]); err != nil {
		t.Fatal(err)
	}
	got := botwired(t, "recover", "--data-dir", dataDir)
	if got.code != cli.ExitOK || got.stderr != "" || !strings.Contains(got.stdout, "pending writes  5         0\n") {
		t.Errorf("exit code %d, stderr %q\n%s", got.code, got.stderr, got.stdout)
	}
}

// On a terminal, one line shows the progress of the recovery, and is cleared at the end.
func TestRecoverShowsProgress(t *testing.T) {
	for name, test := range map[string]struct {
		adjust func(*cli.Program)
		want   bool
	}{
		"on a terminal": {onTerminal, true},
		"elsewhere":     {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			dataDir := closed(t)
			if err := os.Remove(filepath.Join(dataDir, "journal", "MARK")); err != nil {
				t.Fatal(err)
			}
			got := at(t, newDaemon(t, nil), test.adjust, "recover", "--data-dir", dataDir)
			if shown := strings.Contains(got.stderr, " files read\r\x1b[K"); shown != test.want {
				t.Errorf("stderr is %q", got.stderr)
			}
		})
	}
}
