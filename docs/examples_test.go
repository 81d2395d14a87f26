package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	e2eClient   = regexp.MustCompile(`(?m)^    Client\("([a-z0-9-]+)", "[^"]*", "([a-z.]+)"[,)]`)
	exampleLink = regexp.MustCompile(`\]\(\.\./examples/([a-z0-9-]+)\)`)
)

// Each folder of examples/ is one that make e2e runs and that clients.md names, and the other way round.
func TestEachExampleIsRunAndNamed(t *testing.T) {
	folders := make(map[string]bool)
	entries, err := os.ReadDir(filepath.Join(root, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			folders[entry.Name()] = true
		}
	}
	run := make(map[string]bool)
	for _, m := range e2eClient.FindAllStringSubmatch(readFile(t, "proof/e2e/harness/clients.py"), -1) {
		run[m[1]] = true
		if program := "examples/" + m[1] + "/" + m[2]; !readRepository(t).files[program] {
			t.Errorf("make e2e runs %s, and there is none", program)
		}
	}
	named := make(map[string]bool)
	for _, m := range exampleLink.FindAllStringSubmatch(readDoc(t, "clients.md"), -1) {
		named[m[1]] = true
	}
	for folder := range folders {
		if !run[folder] {
			t.Errorf("make e2e does not run examples/%s", folder)
		}
		if !named[folder] {
			t.Errorf("docs/clients.md does not link examples/%s", folder)
		}
	}
	for name := range named {
		if !folders[name] {
			t.Errorf("docs/clients.md links examples/%s, and there is none", name)
		}
	}
	if len(folders) < 10 {
		t.Errorf("only %d examples were found", len(folders))
	}
}

// Each example says how to run it, and names exact versions of the packages of others. It takes botwired's from the clone:
// while that is in no registry, somebody else may own the name.
func TestEachExampleIsComplete(t *testing.T) {
	programs, err := filepath.Glob(filepath.Join(root, "examples", "*", "agent.*"))
	if err != nil || len(programs) < 10 {
		t.Fatalf("%d programs, %v", len(programs), err)
	}
	for _, program := range programs {
		text, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), filepath.Base(program)+` "What do you remember?"`) {
			t.Errorf("%s does not say how to run it", program)
		}
		if filepath.Ext(program) != ".py" {
			continue
		}
		requirements, err := os.ReadFile(filepath.Join(filepath.Dir(program), "requirements.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(requirements)) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "../../clients/python") && !strings.Contains(line, "==") {
				t.Errorf("%s has no exact version: %s", filepath.Dir(program), line)
			}
		}
	}
}
