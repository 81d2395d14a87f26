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

// The lines of every row are where it says they are, and every point has a row.
func TestListIsUpToDate(t *testing.T) {
	points := make(map[int]bool)
	for _, m := range rows(t) {
		points[m.point] = true
		if _, err := m.apply(root); err != nil {
			t.Errorf("%s: %v", &m, err)
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
	for _, m := range rows(t) {
		var names []string
		for _, pkg := range m.test.packages {
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
					names = append(names, match[1])
				}
			}
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

// A row may change a file twice, and run the tests of two packages.
func TestReadLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	text := "point 3: a guard\nfile a.go\n-one\n+two\nfile a.go\n-three\ntest ./a ./b -tags x -run ^TestA$|^TestB$/^c$ -rapid.checks=3\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "a.go"), []byte("zero\none\nthree\nfour\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := readList(path)
	if err != nil {
		t.Fatal(err)
	}
	want := mutant{point: 3, guard: "a guard", edits: []edit{{"a.go", "one\n", "two\n"}, {"a.go", "three\n", ""}},
		test: test{packages: []string{"./a", "./b"}, tags: "x", pattern: "^TestA$|^TestB$/^c$", flags: []string{"-rapid.checks=3"}}}
	if diff := cmp.Diff([]mutant{want}, list, cmp.AllowUnexported(mutant{}, edit{}, test{})); diff != "" {
		t.Errorf("the row (-want +got):\n%s", diff)
	}
	changed, err := list[0].apply(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if changed["a.go"] != "zero\ntwo\nfour\n" {
		t.Errorf("changed to %q", changed["a.go"])
	}
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
