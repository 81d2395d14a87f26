package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

const root = "../.."

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rows(t *testing.T) []mutant {
	t.Helper()
	list, err := readList("mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Every row can be done, every anchor has a row, and every point has one.
func TestListIsUpToDate(t *testing.T) {
	tree, err := readTree(root)
	if err != nil {
		t.Fatal(err)
	}
	points, used := make(map[int]bool), make(map[string]bool)
	for _, m := range rows(t) {
		points[m.point] = true
		for _, e := range m.edits {
			used[e.anchor] = true
		}
		changed, err := m.apply(tree)
		if err != nil {
			t.Errorf("%s: %v", &m, err)
		}
		for file, text := range changed {
			if _, err := parse(file, []byte(text)); err != nil {
				t.Errorf("%s: the code would be no Go: %v", &m, err)
			}
		}
	}
	for id, a := range tree.anchors {
		if !used[id] {
			t.Errorf("%s:%d: no row is about guard %s", a.file.name, a.line, id)
		}
	}
	for point := 1; point <= 22; point++ {
		if !points[point] {
			t.Errorf("no guard of point %d is taken out", point)
		}
	}
}

// Every test that a row names exists: a run with two names says nothing when one is gone.
func TestRowsNameTestsThatExist(t *testing.T) {
	functions := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	namesOf := make(map[string][]string) // by package
	for _, m := range rows(t) {
		var names []string
		for _, pkg := range m.test.packages {
			if of, ok := namesOf[pkg]; ok {
				names = append(names, of...)
				continue
			}
			files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, match := range functions.FindAllStringSubmatch(string(text), -1) {
					namesOf[pkg] = append(namesOf[pkg], match[1])
				}
			}
			names = append(names, namesOf[pkg]...)
		}
		for pattern := range strings.SplitSeq(m.test.pattern, "|") {
			top, _, _ := strings.Cut(pattern, "/")
			if !matchesAny(regexp.MustCompile(top), names) {
				t.Errorf("%s: no test of %s matches %s", &m, strings.Join(m.test.packages, " "), top)
			}
		}
	}
}

func matchesAny(pattern *regexp.Regexp, names []string) bool {
	for _, name := range names {
		if pattern.MatchString(name) {
			return true
		}
	}
	return false
}

// A row may change several places, and run the tests of two packages.
func TestReadList(t *testing.T) {
	list, err := list(t, "# A comment.\nguard 3.1: a guard\nnever\nat 3.1b\nbecomes\n+one\n+\ttwo\nat 4.2\nswap `a` for ``\n"+
		"test ./a ./b -tags x -run ^TestA$|^TestB$/^c$ -rapid.checks=3\n")
	if err != nil {
		t.Fatal(err)
	}
	want := mutant{point: 3, id: "3.1", guard: "a guard",
		edits: []edit{{anchor: "3.1", op: "never"}, {anchor: "3.1b", op: "becomes", with: "one\n\ttwo\n"}, {anchor: "4.2", op: "swap", old: "a"}},
		test:  test{packages: []string{"./a", "./b"}, tags: "x", pattern: "^TestA$|^TestB$/^c$", flags: []string{"-rapid.checks=3"}}}
	if diff := cmp.Diff([]mutant{want}, list, cmp.AllowUnexported(mutant{}, edit{}, test{})); diff != "" {
		t.Errorf("the row (-want +got):\n%s", diff)
	}
}

func TestReadListRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a row without its guard":  "never\n",
		"a row that does nothing":  "guard 1.1: a guard\ntest ./a -run ^TestA$\n",
		"a row without a test":     "guard 1.1: a guard\nnever\n",
		"an unknown operation":     "guard 1.1: a guard\nsometimes\ntest ./a -run ^TestA$\n",
		"two operations":           "guard 1.1: a guard\nnever\ndrop\ntest ./a -run ^TestA$\n",
		"lines where none come":    "guard 1.1: a guard\nnever\n+one\ntest ./a -run ^TestA$\n",
		"a second place of no use": "guard 1.1: a guard\nnever\nat 1.1b\ntest ./a -run ^TestA$\n",
	} {
		if _, err := list(t, text); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func list(t *testing.T, text string) ([]mutant, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return readList(path)
}

// The first test that failed is named, as deep as go test names it.
func TestRead(t *testing.T) {
	broke := errors.New("exit status 1")
	for name, c := range map[string]struct {
		out            string
		err            error
		failed, broken string
	}{
		"passes":      {"PASS\n", nil, "", ""},
		"fails":       {"--- FAIL: TestA (0.01s)\n    a_test.go:1: no\nFAIL\n", broke, "TestA", ""},
		"subtest":     {"--- FAIL: TestA (0.01s)\n    --- FAIL: TestA/b (0.00s)\n        a_test.go:1: no\nFAIL\n", broke, "TestA/b", ""},
		"hangs":       {"panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestA (1m0s)\n", broke, "TestA", ""},
		"no test":     {"testing: warning: no tests to run\nPASS\n", nil, "", "there is no such test"},
		"not started": {"no such file\n", broke, "", "no test has failed, but the program has (exit status 1):\nno such file\n"},
	} {
		if failed, broken := read(c.out, c.err); failed != c.failed || broken != c.broken {
			t.Errorf("%s: failed %q, broken %q", name, failed, broken)
		}
	}
}
