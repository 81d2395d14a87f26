package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	makeCall       = regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)`)
	ciCall         = regexp.MustCompile(`^\s*(?:beside \w+ (?:nice )?)?make `)
	nightlyTargets = regexp.MustCompile(`(?m)^NIGHTLY := .*$`)
	requirement    = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`) // without "// indirect"
	version        = regexp.MustCompile(`/v[0-9]+$`)
)

// makeCalls are the targets that a text names, as "make TARGET".
func makeCalls(text string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range makeCall.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// CONTRIBUTING.md names each target of the Makefile. TestNamesExist holds the other direction.
func TestContributingHasEachTarget(t *testing.T) {
	named := makeCalls(readFile(t, "CONTRIBUTING.md"))
	for target := range readRepository(t).targets {
		if target != "help" && !named[target] {
			t.Errorf("CONTRIBUTING.md says nothing of make %s", target)
		}
	}
}

// The tables of the targets that a change must pass, and of those of each night, have what .ci/run and
// make nightly call, and no others.
func TestContributingHasTheTargetsOfTheCI(t *testing.T) {
	text := readFile(t, "CONTRIBUTING.md")
	everyChange, rest, nightly := strings.Cut(text, "`make nightly` is what takes longer")
	eachNight, _, others := strings.Cut(rest, "And these are")
	_, everyChange, begins := strings.Cut(everyChange, "what every change must pass")
	if !begins || !nightly || !others {
		t.Fatal("the tables were not found")
	}
	var script strings.Builder
	for line := range strings.Lines(readFile(t, ".ci/run")) {
		if ciCall.MatchString(line) {
			script.WriteString(line)
		}
	}
	compareTargets(t, ".ci/run", makeCalls(script.String()), makeCalls(everyChange))
	night := make(map[string]bool)
	for _, target := range strings.Fields(nightlyTargets.FindString(readFile(t, "Makefile")))[2:] {
		night[target] = true
	}
	compareTargets(t, "make nightly", night, makeCalls(eachNight))
}

func compareTargets(t *testing.T, caller string, called, listed map[string]bool) {
	t.Helper()
	for target := range called {
		if !listed[target] {
			t.Errorf("%s calls make %s, and its table lacks it", caller, target)
		}
	}
	for target := range listed {
		if !called[target] {
			t.Errorf("the table of %s has make %s, which it does not call", caller, target)
		}
	}
	if len(called) < 10 {
		t.Errorf("only %d targets were found in %s", len(called), caller)
	}
}

// CONTRIBUTING.md names each folder, where it is: at the beginning of a line.
func TestContributingHasEachFolder(t *testing.T) {
	text := readFile(t, "CONTRIBUTING.md")
	for _, pattern := range []string{"*", "internal/*", "proof/*", "tools/*"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(found) < 3 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		for _, path := range found {
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			name = filepath.ToSlash(name)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			// A group of folders is named by its members, and bin is what was built.
			if !info.IsDir() || strings.HasPrefix(name, ".") || name == "bin" || name == "cmd" || name == "internal" || name == "proof" {
				continue
			}
			if !regexp.MustCompile(`(?m)^([a-z]+, )*` + regexp.QuoteMeta(name) + `(,|\s)`).MatchString(text) {
				t.Errorf("CONTRIBUTING.md says nothing of the folder %s", name)
			}
		}
	}
}

// The table of modules has each that go.mod requires itself.
func TestContributingHasEachModule(t *testing.T) {
	text, count := readFile(t, "CONTRIBUTING.md"), 0
	for _, m := range requirement.FindAllStringSubmatch(readFile(t, "go.mod"), -1) {
		count++
		name := strings.TrimPrefix(version.ReplaceAllString(m[1], ""), "github.com/")
		if strings.HasPrefix(name, "go.opentelemetry.io/otel/") {
			continue // a part of go.opentelemetry.io/otel
		}
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("CONTRIBUTING.md says nothing of the module %s", name)
		}
	}
	if count < 15 {
		t.Errorf("only %d modules were found", count)
	}
}
