package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// testTimeout bounds one run of a row's tests: a guard may be one against waiting for
// ever.
const testTimeout = 90 * time.Second

// verdict is what became of one row.
type verdict struct {
	failed string // the first test that failed; empty if none did
	broken string // why the row says nothing
}

func (v verdict) String() string {
	switch {
	case v.broken != "":
		return "BROKEN: " + v.broken
	case v.failed == "":
		return "SURVIVED"
	}
	return "caught by " + v.failed
}

// judge applies a mutant to a fresh copy of the tree and runs its tests there; in a
// trial the tests run as they are.
func judge(ctx context.Context, root, scratch string, m *mutant, trial bool) (verdict, error) {
	if err := copyTree(root, scratch); err != nil {
		return verdict{}, err
	}
	if !trial {
		if err := m.apply(scratch); err != nil {
			return verdict{broken: err.Error()}, nil
		}
	}
	args := append([]string{"test", "-count=1", "-vet=off", "-failfast", "-timeout", testTimeout.String()}, m.test...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = scratch
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	return read(out.String(), err), nil
}

var (
	// failure is a test's own word that it failed.
	failure = regexp.MustCompile(`(?m)^ *--- FAIL: (.+) \(\d`)
	// mention is a test among the stacks of a process that did not end by itself.
	mention = regexp.MustCompile(`\b(Test\w+|Fuzz\w+)\b`)
)

// read makes a verdict of what go test has said.
func read(out string, err error) verdict {
	switch {
	case strings.Contains(out, "[no tests to run]"), strings.Contains(out, "[no test files]"):
		return verdict{broken: "there is no such test"}
	case strings.Contains(out, "[build failed]"), strings.Contains(out, "[setup failed]"):
		return verdict{broken: "it does not compile:\n" + out}
	case err == nil && strings.Contains(out, "ok"):
		return verdict{}
	}
	var failed string
	for _, match := range failure.FindAllStringSubmatch(out, -1) {
		if failed == "" || strings.HasPrefix(match[1], failed+"/") {
			failed = match[1]
		}
	}
	if failed == "" {
		failed = mention.FindString(out)
	}
	if failed == "" {
		return verdict{broken: fmt.Sprintf("no test has failed, but the command (%v):\n%s", err, out)}
	}
	return verdict{failed: failed}
}

// copyTree makes to a copy of what the build needs of from.
func copyTree(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if hidden := strings.HasPrefix(d.Name(), ".") && name != "."; hidden || name == "bin" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o600)
	})
}
