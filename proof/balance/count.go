package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// counts are read from the pages that the code writes, or that tests hold against it: so
// they can be read of any tree without building it.
var counts = []struct {
	what, budget string
	count        func(root string) (int, error)
}{
	{"settings", "36", headings("docs/settings.md", regexp.MustCompile("(?m)^### `[a-z0-9_.]+`"))},
	{"commands and subcommands", "31", commands},
	{"paths under /_botwired/", "27", paths},
	{"words in README and docs", "50,000", words},
}

// headings counts a page's entries between the marks of its reference.
func headings(page string, entry *regexp.Regexp) func(root string) (int, error) {
	return func(root string) (int, error) {
		found, err := reference(root, page, entry)
		return len(found), err
	}
}

func reference(root, page string, entry *regexp.Regexp) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(text), "<!-- reference -->")
	list, _, _ := strings.Cut(rest, "<!-- /reference -->")
	found := entry.FindAllString(list, -1)
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no reference", page)
	}
	return found, nil
}

// commands leaves out what cobra adds to any program.
func commands(root string) (int, error) {
	found, err := reference(root, "docs/commands.md", regexp.MustCompile("(?m)^### `botwired [a-z -]+`"))
	n := 0
	for _, name := range found {
		if !regexp.MustCompile("`botwired (completion|help)\\b").MatchString(name) {
			n++
		}
	}
	return n, err
}

func paths(root string) (int, error) {
	text, err := os.ReadFile(filepath.Join(root, "proxy", "openapi", "openapi.yaml"))
	return len(regexp.MustCompile(`(?m)^  /_botwired`).FindAll(text, -1)), err
}

func words(root string) (n int, err error) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return 0, err
	}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			return 0, err
		}
		n += len(strings.Fields(string(text)))
	}
	return n, nil
}

// programSize is the stripped program's in bytes.
func programSize(root string) (int64, error) {
	dir, err := os.MkdirTemp("", "balance")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "botwired")
	if _, err := command(root, "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/botwired"); err != nil {
		return 0, err
	}
	info, err := os.Stat(program)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// command runs go in the tree.
func command(root string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(context.Background(), "go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.Output()
}
