package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mutant is one guard taken out.
type mutant struct {
	point int
	guard string
	edits []edit
	test  test
	limit time.Duration // of a run of its tests; 0 is testTimeout
}

// edit replaces some lines of a file.
type edit struct {
	file      string // slash-separated, from the root of the tree
	old, with string
}

// test says which tests can see a row. Its line in the list has go test's arguments.
type test struct {
	packages []string // such as ./journal
	tags     string   // build tags
	pattern  string   // -run
	flags    []string // the test program's own
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
		if len(m.edits) == 0 || len(m.test.packages) == 0 || m.test.pattern == "" {
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
	if args, ok := strings.CutPrefix(line, "test "); ok {
		m.test = readTest(strings.Fields(args))
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

// readTest tells the arguments of go test from those of the test program.
func readTest(args []string) (t test) {
	for i := 0; i < len(args); i++ {
		switch value := i + 1; {
		case strings.HasPrefix(args[i], "./"):
			t.packages = append(t.packages, args[i])
		case args[i] == "-tags" && value < len(args):
			t.tags, i = args[value], value
		case args[i] == "-run" && value < len(args):
			t.pattern, i = args[value], value
		default:
			t.flags = append(t.flags, args[i])
		}
	}
	return t
}

// runsWith reports whether one run of one program can run the tests of both.
func (t test) runsWith(o test) bool {
	return slices.Equal(t.packages, o.packages) && t.tags == o.tags && slices.Equal(t.flags, o.flags)
}

// apply returns the files that the mutant changes, as they are with the changes.
func (m *mutant) apply(root string) (map[string]string, error) {
	changed := make(map[string]string)
	for _, e := range m.edits {
		text, ok := changed[e.file]
		if !ok {
			read, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
			if err != nil {
				return nil, err
			}
			text = string(read)
		}
		text, err := e.apply(text)
		if err != nil {
			return nil, err
		}
		changed[e.file] = text
	}
	return changed, nil
}

func (e *edit) apply(text string) (string, error) {
	if e.old == "" {
		return "", fmt.Errorf("%s: no line goes", e.file)
	}
	// A line is whole: the text in a row may not begin in the middle of one.
	if n := strings.Count("\n"+text, "\n"+e.old); n != 1 {
		return "", fmt.Errorf("%s has these lines %d times:\n%s", e.file, n, e.old)
	}
	return strings.TrimPrefix(strings.Replace("\n"+text, "\n"+e.old, "\n"+e.with, 1), "\n"), nil
}

// pkg is the folder of the first tests that the row runs.
func (m *mutant) pkg() string { return strings.TrimPrefix(m.test.packages[0], "./") }
