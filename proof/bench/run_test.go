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

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		file, page := filepath.Join(dir, "bench.json"), pageWith(t, "bench")
		// Neither Redis nor nginx is needed for the tests to pass, nor is it installed for them.
		none := filepath.Join(dir, "none")
		table := run(t, "-json", file, "-page", page, "-connections", "1,64,200", "-redis", none, "-nginx", none, "-env", "GOGC=150")
		if !strings.Contains(table, "botwired with GOGC=150; ") {
			t.Errorf("the table is %s", table)
		}
		checkComparison(t, file, page, table)
	})
	t.Run("crowd", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(dir, "crowd.json")
		table := run(t, "crowd", "-json", file)
		checkCrowd(t, file, table)
	})
	if _, err := os.Stat("/proc/self/status"); err == nil { // the system tells how much memory a process takes
		t.Run("growth", func(t *testing.T) {
			t.Parallel()
			file, plot := filepath.Join(dir, "growth.json"), filepath.Join(dir, "growth.svg")
			table := run(t, "growth", "-json", file, "-svg", plot)
			checkGrowth(t, file)
			if !strings.Contains(table, "| 5,000 | 500 | settled |") {
				t.Errorf("the table is %s", table)
			}
			wantXML(t, plot)
		})
	}
	if _, err := os.Stat("/proc/self/schedstat"); err == nil { // the system tells the CPU time of a process
		t.Run("features", func(t *testing.T) {
			t.Parallel()
			checkFeatures(t, run)
		})
	}
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

// checkComparison wants every cell to have its figures, and the page to have the tables.
func checkComparison(t *testing.T, file, page, table string) {
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
	content := readFile(page)
	if !strings.HasPrefix(content, "before\n<!-- bench -->\nClosed loop") || !strings.HasSuffix(content, ".\n<!-- /bench -->\nafter\n") {
		t.Errorf("the page is\n%s", content)
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

// checkFeatures wants figures of all who use a feature. No page gets those of a quick run.
func checkFeatures(t *testing.T, run func(*testing.T, ...string) string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "features.json")
	table := run(t, "features", "-json", file, "-only", "^(receipts|quota|events|metrics|traces of all)$")
	var r featuresReport
	readJSON(t, file, &r)
	if want := 6 * len(featureLoads); len(r.Rows) != want || len(r.Goals) != 5*2 {
		t.Errorf("%d rows and %d goals, want %d and %d", len(r.Rows), len(r.Goals), want, 5*2)
	}
	for _, row := range r.Rows {
		for _, f := range []turnFigures{row.Rounds[0].Without, row.Rounds[0].With} {
			if f.CPU <= 0 || f.PerSecond <= 0 || f.P50 <= 0 || f.P99 < f.P50 {
				t.Errorf("%s, %s: %+v", row.Feature, row.Load, f)
			}
		}
		if !strings.Contains(table, "| "+row.Feature+" | "+row.Load+" |") {
			t.Errorf("%s, %s is not in the table", row.Feature, row.Load)
		}
	}
	var b strings.Builder
	if err := r.printTables(&b); err != nil || !strings.HasPrefix(b.String(), "| feature |") || !strings.HasSuffix(b.String(), "before.\n") {
		t.Errorf("a page would get\n%s: %v", b.String(), err)
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

func checkGrowth(t *testing.T, file string) {
	t.Helper()
	var r growthReport
	readJSON(t, file, &r)
	if len(r.Points) != 7 {
		t.Errorf("%d points, want 7", len(r.Points))
	}
	for _, p := range r.Points {
		if p.Disk <= 0 || p.Ready <= 0 || p.Counted < p.Ready || p.GetRatio <= 0 || p.PutRatio <= 0 || p.First.P50 <= 0 || p.RSS <= 0 {
			t.Errorf("%+v", p)
		}
		if (p.State == stateSettled) != (p.Drain.Writes > 0) {
			t.Errorf("%s: drained %+v", p.State, p.Drain)
		}
	}
}

func checkCrowd(t *testing.T, file, table string) {
	t.Helper()
	var r crowdReport
	readJSON(t, file, &r)
	for _, f := range r.Requests {
		if f.Bytes <= 0 || f.Median <= 0 || f.Worst < f.Median || !strings.Contains(table, "`"+f.Path+"`") {
			t.Errorf("%+v", f)
		}
	}
	if len(r.Requests) != 13 || r.Live.Writes == 0 || r.Live.Event.Median <= 0 || r.Live.Put.Worst < r.Live.Put.Median {
		t.Errorf("%d requests, %+v", len(r.Requests), r.Live)
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
