package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// repository is what the pages may name: the tests, the targets and the files.
type repository struct {
	tests   map[string][]string // the folders of each, from here
	targets map[string]bool     // of make
	files   map[string]bool     // from the root, with the folders
}

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	makeTarget   = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// theRepository reads what is there, once.
var theRepository = sync.OnceValues(func() (*repository, error) {
	r := &repository{tests: make(map[string][]string), targets: make(map[string]bool), files: make(map[string]bool)}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		// A hidden folder is a tool's, but for those of the CI. bin is what was built.
		if d.IsDir() && name != "." && name != ".ci" && name != ".github" &&
			(strings.HasPrefix(d.Name(), ".") || name == "bin" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		r.files[name] = true
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
			r.tests[m[1]] = append(r.tests[m[1]], filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	for _, m := range makeTarget.FindAllStringSubmatch(string(text), -1) {
		r.targets[m[1]] = true
	}
	return r, err
})

func readRepository(t *testing.T) *repository {
	t.Helper()
	r, err := theRepository()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.tests) < 500 || len(r.targets) < 10 {
		t.Fatalf("only %d tests and %d targets were found", len(r.tests), len(r.targets))
	}
	return r
}

// tries says what is wrong with the words of a "tried by"; empty if nothing is. They are a test
// (TestProcess, or TestProcess/probes), a target (make units), or a script, which then has each
// "make …" of the block.
func (r *repository) tries(by, block string) string {
	if target, ok := strings.CutPrefix(by, "make "); ok {
		if r.targets[target] {
			return ""
		}
		return "the Makefile has no target " + target
	}
	if strings.HasPrefix(by, "Test") {
		return r.hasTest(by)
	}
	script, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(by)))
	if err != nil {
		return fmt.Sprintf("%s is no test, no make target and no script: %v", by, err)
	}
	for command := range strings.Lines(block) {
		command, _, _ = strings.Cut(command, "#")
		command = strings.TrimSpace(command)
		if strings.HasPrefix(command, "make ") && !regexp.MustCompile(`(?m)^\s*(?:beside \w+ )?`+regexp.QuoteMeta(command)+`\b`).Match(script) {
			return by + " does not run " + command
		}
	}
	return ""
}

// hasTest says what is wrong with the name of a test; empty if nothing is. A subtest's name is a text
// in the test's package.
func (r *repository) hasTest(name string) string {
	top, part, nested := strings.Cut(name, "/")
	folders := r.tests[top]
	if len(folders) == 0 {
		return "there is no test " + top
	}
	if !nested {
		return ""
	}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			return err.Error()
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err.Error()
			}
			if strings.Contains(string(text), strconv.Quote(part)) {
				return ""
			}
		}
	}
	return "no test in " + strings.Join(folders, " ") + " is called " + part
}

// Each block of commands that the runner does not run is tried by something that exists.
func TestBlocksAreTried(t *testing.T) {
	r := readRepository(t)
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			for _, by := range b.values("tried by") {
				if wrong := r.tries(by, b.text); wrong != "" {
					t.Errorf("%s:%d: %s", p.path, b.number, wrong)
				}
			}
		}
	}
}

// The rule itself refuses what it is there for.
func TestWhatTriesNothingIsSeen(t *testing.T) {
	r := readRepository(t)
	for by, works := range map[string]bool{
		"TestPages": true, "TestNothingAtAll": false, "TestProcess/two runs share a daemon": true, "TestProcess/three": false, "make test": true, "make tests": false,
		".ci/run": true, ".ci/runs": false, "nobody": false,
	} {
		if wrong := r.tries(by, "make test # runs the tests\nother\n"); (wrong == "") != works {
			t.Errorf("%s: %q", by, wrong)
		}
	}
	if r.tries(".ci/run", "make coffee\n") == "" {
		t.Error(".ci/run makes coffee")
	}
}
