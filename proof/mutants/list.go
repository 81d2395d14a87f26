package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mutant is one guard taken out.
type mutant struct {
	point int    // of docs/contract.md
	id    string // of the guard's anchor, such as 8.4
	guard string
	edits []edit
	test  test
	limit time.Duration // of a run of its tests; 0 is testTimeout
}

// edit says what is done to the node at an anchor.
type edit struct {
	anchor string
	op     string // never, always, drop, swap, before, after or becomes
	old    string // of swap
	with   string // of all from swap on
}

// test says which tests can see a row. Its line in the list has go test's arguments.
type test struct {
	packages []string // such as ./journal
	tags     string   // build tags
	pattern  string   // -run
	flags    []string // the test program's own
}

func (m *mutant) String() string { return fmt.Sprintf("%s: %s", m.id, m.guard) }

var (
	guardLine = regexp.MustCompile(`^guard (([0-9]+)\.[0-9]+): (.+)$`)
	atLine    = regexp.MustCompile(`^at (` + anchorID + `)$`)
	swapLine  = regexp.MustCompile("^swap `([^`]+)` for `([^`]*)`$")
)

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
		if err := list[i].check(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, &list[i], err)
		}
	}
	return list, nil
}

func (m *mutant) check() error {
	if slices.ContainsFunc(m.edits, func(e edit) bool { return e.op == "" }) {
		return errors.New("it does not say what is done")
	}
	if len(m.test.packages) == 0 || m.test.pattern == "" {
		return errors.New("it names no test")
	}
	return nil
}

// readLine adds what one line says to the list.
func readLine(list []mutant, line string) ([]mutant, error) {
	if match := guardLine.FindStringSubmatch(line); match != nil {
		point, err := strconv.Atoi(match[2])
		return append(list, mutant{point: point, id: match[1], guard: match[3], edits: []edit{{anchor: match[1]}}}), err
	}
	if len(list) == 0 {
		return nil, errors.New("a row begins with its guard")
	}
	m := &list[len(list)-1]
	if match := atLine.FindStringSubmatch(line); match != nil {
		m.edits = append(m.edits, edit{anchor: match[1]})
		return list, nil
	}
	if args, ok := strings.CutPrefix(line, "test "); ok {
		m.test = readTest(strings.Fields(args))
		return list, nil
	}
	return list, m.edits[len(m.edits)-1].read(line)
}

// read takes the line that says what is done, or one of the lines that come.
func (e *edit) read(line string) error {
	if with, ok := strings.CutPrefix(line, "+"); ok && slices.Contains([]string{"before", "after", "becomes"}, e.op) {
		e.with += with + "\n"
		return nil
	}
	if e.op != "" {
		return fmt.Errorf("%q: one thing is done at an anchor", line)
	}
	switch match := swapLine.FindStringSubmatch(line); {
	case match != nil:
		e.op, e.old, e.with = "swap", match[1], match[2]
	case slices.Contains([]string{"never", "always", "drop", "before", "after", "becomes"}, line):
		e.op = line
	default:
		return fmt.Errorf("%q is no part of a row", line)
	}
	return nil
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

// pkg is the folder of the first tests that the row runs.
func (m *mutant) pkg() string { return strings.TrimPrefix(m.test.packages[0], "./") }
