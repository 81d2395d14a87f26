//go:build nightly

package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The program works with all its servers: every cell is measured and checked, for as
// short a time as possible. Nobody looks at the figures, so the runs that mostly wait for
// their servers run beside each other. Others count what happens within a time: they come first.
func TestQuickRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it")
	}
	dir := t.TempDir()
	build := func(name, pkg string) string {
		out := filepath.Join(dir, name)
		if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", pkg, err, text)
		}
		return out
	}
	program, bench := build("botwired", "../../cmd/botwired"), build("bench", ".")
	run := func(t *testing.T, args ...string) string {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), bench, append(args, "-program", program, "-dir", t.TempDir(), "-quick")...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, stderr.Bytes())
		}
		return stdout.String()
	}
	t.Run("comparison", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(dir, "bench.json")
		// Neither Redis nor nginx is needed for the tests to pass, nor is it installed for them.
		none := filepath.Join(dir, "none")
		table := run(t, "-json", file, "-connections", "1,64,200", "-redis", none, "-nginx", none, "-env", "GOGC=150")
		if !strings.Contains(table, "botwired with GOGC=150; ") {
			t.Errorf("the table is %s", table)
		}
		checkComparison(t, file, table)
	})
	t.Run("histories", func(t *testing.T) { checkHistories(t, run) })
	t.Run("conversation", func(t *testing.T) {
		file, plot := filepath.Join(dir, "conversation.json"), filepath.Join(dir, "conversation.svg")
		table := run(t, "conversation", "-json", file, "-svg", plot)
		var r conversationReport
		readJSON(t, file, &r)
		wantConversation(t, &r)
		if !strings.Contains(table, "| messages lost then | ") {
			t.Errorf("the table is %s", table)
		}
		wantXML(t, plot)
	})
}

// checkComparison wants every cell to have its figures, and its place in the tables.
func checkComparison(t *testing.T, file, table string) {
	t.Helper()
	var r report
	readJSON(t, file, &r)
	// One with 200 connections has GET hit and PUT of distinct keys only, and one with 64 has the page, too.
	if want := (4 + 5 + 3) + (2 + 2) + (3 + 4 + 2) + (3 + 4) + (2 + 2) + 2*(3+3); len(r.Cells) != want {
		t.Errorf("%d cells, want %d", len(r.Cells), want)
	}
	if want := 3*3 + 3*2; len(r.Open) != want {
		t.Errorf("%d cells of the open loop, want %d", len(r.Open), want)
	}
	for _, c := range slices.Concat(r.Cells, r.Open) {
		m := c.Median
		if m.PerSecond <= 0 || m.P50 <= 0 || m.P99 < m.P50 || m.P999 < m.P99 {
			t.Errorf("%s: %+v", c.name(), m)
		}
		if !strings.Contains(table, "| "+c.Workload+" |") || !strings.Contains(table, "| "+labels[c.Contender]+" |") {
			t.Errorf("%s is not in the table", c.name())
		}
	}
	if !strings.HasPrefix(table, "Closed loop") {
		t.Errorf("the table is %s", table)
	}
}

// pageWith returns a page with an older table between the marks.
func pageWith(t *testing.T, mark string) string {
	t.Helper()
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n<!-- "+mark+" -->\nan older table\n<!-- /"+mark+" -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return page
}

// checkHistories wants botwired to have sent no more than the service got without it, and the page to have the table.
func checkHistories(t *testing.T, run func(*testing.T, ...string) string) {
	t.Helper()
	file, page := filepath.Join(t.TempDir(), "histories.json"), pageWith(t, "histories")
	run(t, "histories", "-json", file, "-page", page, "-scripts", "testdata/histories")
	var r historiesReport
	readJSON(t, file, &r)
	if len(r.Rows) != 1 {
		t.Fatalf("%d adapters, want 1", len(r.Rows))
	}
	row := r.Rows[0]
	if row.Direct.Writes != r.Options.Messages || row.Direct.Bytes <= 0 || row.Direct.Wall <= 0 {
		t.Errorf("directly: %+v", row.Direct)
	}
	for _, k := range []kept{row.Through, row.Thinking} {
		if k.Writes < 1 || k.Writes > row.Direct.Writes || k.Bytes > row.Direct.Bytes {
			t.Errorf("through botwired: %+v, directly: %+v", k, row.Direct)
		}
	}
	content := readFile(page)
	if !strings.HasPrefix(content, "before\n<!-- histories -->\n| 10 messages |") || !strings.HasSuffix(content, "before.\n<!-- /histories -->\nafter\n") {
		t.Errorf("the page is\n%s", content)
	}
	for line := range strings.Lines(content) {
		if len(line) > 121 && !strings.HasPrefix(line, "|") {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
}

// wantConversation wants the outage to cost messages without botwired, and none with it.
func wantConversation(t *testing.T, r *conversationReport) {
	t.Helper()
	if len(r.Runs) != 4 {
		t.Fatalf("%d runs, want 4", len(r.Runs))
	}
	for _, h := range r.Runs {
		lost := 0
		if !h.Through && h.Outage > 0 {
			lost = 2 // at least: each takes the agent a timeout, and the outage lasts two and a half of them
		}
		if len(h.Said) != r.Options.Messages || h.Lost < lost || lost == 0 && h.Lost > 0 || h.P50 <= 0 || h.P99 < h.P50 || h.Writes < 1 {
			t.Errorf("%s: %+v", h.name(), h)
		}
		if h.Through && h.Writes >= len(h.Said)/2 {
			t.Errorf("%s: %d writes upstream of %d messages", h.name(), h.Writes, len(h.Said))
		}
	}
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func wantXML(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for d := xml.NewDecoder(file); err == nil; {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("%s: %v", name, err)
	}
}
