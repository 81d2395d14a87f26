package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// testTimeout bounds one run of a row's tests: the guard that a row takes out may be one
// against waiting for ever. trials gives most rows a shorter limit.
const testTimeout = 3 * time.Minute

// trialTimeout bounds one run of the tests of many rows, as the tree is.
const trialTimeout = 15 * time.Minute

// result says what became of one row.
type result struct {
	failed            string // the first test that failed; empty if none did
	broken            string // why the row says nothing
	output            string // of the tests, if one failed
	building, testing time.Duration
}

func (r result) String() string {
	switch {
	case r.broken != "":
		return "BROKEN: " + r.broken
	case r.failed == "":
		return "SURVIVED"
	}
	return "caught by " + r.failed
}

// lab is where rows are tried.
type lab struct {
	root    string // the tree's, absolute
	tree    *tree
	scratch string
	// programs holds the test programs as the tree is: *program, by the package and its tags.
	programs sync.Map
}

func newLab(root string) (*lab, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	tree, err := readTree(root)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "mutants")
	return &lab{root: root, tree: tree, scratch: scratch}, err
}

func (l *lab) close() { _ = os.RemoveAll(l.scratch) }

// judge lays a row's changes over the tree, builds its tests and runs them. The rows
// that are judged at the same time have directories of their own.
func (l *lab) judge(ctx context.Context, dir string, m *mutant) (r result, err error) {
	dir = filepath.Join(l.scratch, dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return r, err
	}
	changed, err := m.apply(l.tree)
	if err != nil {
		r.broken = err.Error()
		return r, nil
	}
	overlay, err := l.overlay(dir, changed)
	if err != nil {
		return r, err
	}
	for _, pkg := range m.test.packages {
		program, began := filepath.Join(dir, "row.test"), time.Now()
		var out string
		err := l.relink(ctx, dir, changed, pkg, m.test.tags, program)
		if err != nil && ctx.Err() == nil {
			out, err = l.build(ctx, overlay, pkg, m.test.tags, program)
		}
		r.building += time.Since(began)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if err != nil {
			r.broken = fmt.Sprintf("it does not compile (%v):\n%s", err, out)
			return r, nil
		}
		began = time.Now()
		out, err = l.test(ctx, overlay, pkg, program, m)
		r.testing += time.Since(began)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if r.failed, r.broken = read(out, err); r.failed != "" || r.broken != "" {
			r.output = out
			return r, nil
		}
	}
	return r, nil
}

// overlay writes the changed files, and the file that tells the go command which files
// of the tree they replace.
func (l *lab) overlay(dir string, changed map[string]string) (string, error) {
	replace := make(map[string]string, len(changed))
	for file, text := range changed {
		name := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(l.root, filepath.FromSlash(file))] = name
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

func (l *lab) build(ctx context.Context, overlay, pkg, tags, program string) (string, error) {
	// Nobody debugs the program, and it runs once: without symbols it links in half the time,
	// and what is not inlined compiles in little more than half.
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-trimpath", "-ldflags=-s -w", noInlining,
		"-tags", tags, "-overlay", overlay, "-o", program, pkg)
	cmd.Dir = l.root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// test runs the tests that a row names. Some of them build the daemon themselves: they
// find the changes by GOFLAGS.
func (l *lab) test(ctx context.Context, overlay, pkg, program string, m *mutant) (string, error) {
	limit := cmp.Or(m.limit, testTimeout)
	args := append([]string{"-test.run", m.test.pattern, "-test.failfast", "-test.timeout", limit.String()}, m.test.flags...)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = filepath.Join(l.root, filepath.FromSlash(pkg))
	cmd.Env = append(os.Environ(), strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	cmd.WaitDelay = time.Second // a process that a test has started and left behind may hold its output open
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

var (
	// failure is a test's own word that it failed.
	failure = regexp.MustCompile(`(?m)^ *--- FAIL: (.+) \(\d`)
	// mention is a test among the stacks of a process that did not end by itself.
	mention = regexp.MustCompile(`\b(Test\w+|Fuzz\w+)\b`)
)

// read finds the first test that failed in what a test program has printed, or says why
// the program tells nothing. Both are empty if all tests passed.
func read(out string, err error) (failed, broken string) {
	if strings.Contains(out, "warning: no tests to run") {
		return "", "there is no such test"
	}
	if err == nil {
		return "", ""
	}
	for _, match := range failure.FindAllStringSubmatch(out, -1) {
		if failed == "" || strings.HasPrefix(match[1], failed+"/") {
			failed = match[1]
		}
	}
	if failed == "" {
		failed = mention.FindString(out)
	}
	if failed == "" {
		return "", fmt.Sprintf("no test has failed, but the program has (%v):\n%s", err, out)
	}
	return failed, ""
}
