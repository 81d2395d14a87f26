package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is one guard taken out.
type mutant struct {
	point int
	guard string
	edits []edit
	test  []string // arguments of go test
}

// edit replaces some lines of a file.
type edit struct {
	file      string // slash-separated, from the root of the tree
	old, with string
}

func (m *mutant) String() string { return fmt.Sprintf("%d: %s", m.point, m.guard) }

// readList reads the rows of the list, in its order.
func readList(path string) ([]mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []mutant
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if list, err = readLine(list, line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	for i := range list {
		m := &list[i]
		if at := slices.Index(m.test, "-run"); len(m.edits) == 0 || at < 0 || at+1 == len(m.test) {
			return nil, fmt.Errorf("%s: %s: no change, or no test", path, m)
		}
	}
	return list, nil
}

// readLine adds what one line says to the list.
func readLine(list []mutant, line string) ([]mutant, error) {
	if rest, ok := strings.CutPrefix(line, "point "); ok {
		number, guard, _ := strings.Cut(rest, ": ")
		point, err := strconv.Atoi(number)
		return append(list, mutant{point: point, guard: guard}), err
	}
	if len(list) == 0 {
		return nil, errors.New("a row begins with its point")
	}
	m := &list[len(list)-1]
	if file, ok := strings.CutPrefix(line, "file "); ok {
		m.edits = append(m.edits, edit{file: file})
		return list, nil
	}
	if test, ok := strings.CutPrefix(line, "test "); ok {
		m.test = strings.Fields(test)
		return list, nil
	}
	if len(m.edits) == 0 {
		return nil, errors.New("a change begins with its file")
	}
	e := &m.edits[len(m.edits)-1]
	switch line[0] {
	case '-':
		e.old += line[1:] + "\n"
	case '+':
		e.with += line[1:] + "\n"
	default:
		return nil, fmt.Errorf("%q is no part of a row", line)
	}
	return list, nil
}

// apply makes the mutant's changes in a tree.
func (m *mutant) apply(root string) error {
	for _, e := range m.edits {
		path := filepath.Join(root, filepath.FromSlash(e.file))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed, err := e.apply(string(text))
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (e *edit) apply(text string) (string, error) {
	if e.old == "" {
		return "", fmt.Errorf("%s: no line goes", e.file)
	}
	// A line is whole: what is shown may not begin in the middle of one.
	if n := strings.Count("\n"+text, "\n"+e.old); n != 1 {
		return "", fmt.Errorf("%s has these lines %d times:\n%s", e.file, n, e.old)
	}
	return strings.TrimPrefix(strings.Replace("\n"+text, "\n"+e.old, "\n"+e.with, 1), "\n"), nil
}
