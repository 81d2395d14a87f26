package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Features are measured with all who use them, for as short a time as possible. Nobody looks at
// the figures. Only Linux tells the CPU time of a process to the nanosecond.
func TestQuickFeatures(t *testing.T) {
	dir := t.TempDir()
	build := func(name, pkg string) string {
		out := filepath.Join(dir, name)
		if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", pkg, err, text)
		}
		return out
	}
	file := filepath.Join(dir, "features.json")
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), build("bench", "."), "features", "-quick", "-program", build("botwired", "../../cmd/botwired"),
		"-dir", dir, "-json", file, "-only", "^(receipts|quota|events|metrics|traces of all)$")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
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
		if !strings.Contains(stdout.String(), "| "+row.Feature+" | "+row.Load+" |") {
			t.Errorf("%s, %s is not in the table", row.Feature, row.Load)
		}
	}
	var b strings.Builder
	if err := r.printTables(&b); err != nil || !strings.HasPrefix(b.String(), "| feature |") || !strings.HasSuffix(b.String(), "before.\n") {
		t.Errorf("the page gets\n%s: %v", b.String(), err)
	}
}
