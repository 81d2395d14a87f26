package rules

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// go.mod names what the code imports, and nothing else.
func TestModulesAreTidy(t *testing.T) {
	out, err := goCommand(t, "mod", "tidy", "-diff")
	if err != nil && out == "" {
		t.Skipf("go mod tidy cannot look: %v", err) // offline, it lacks modules that only other modules' tests need
	}
	if out != "" {
		t.Errorf("run go mod tidy:\n%s", out)
	}
}

// The table of modules names what go.mod requires, and nothing else.
func TestModulesAreTheAgreedOnes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), " v"); ok && !strings.Contains(line, "// indirect") {
			required[name] = true
		}
	}
	for name := range required {
		if modules[name] == nil {
			t.Errorf("nobody has agreed to %s", name)
		}
	}
	for name := range modules {
		if !required[name] {
			t.Errorf("go.mod does not require %s", name)
		}
	}
}

// The program contains no module that only tests need.
func TestProgramHasNoTestModules(t *testing.T) {
	out, err := goCommand(t, "list", "-deps", "./cmd/botwired")
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(out)
	if len(packages) < 100 {
		t.Fatalf("only %d packages were found", len(packages))
	}
	for _, path := range packages {
		for name, where := range modules {
			if len(where) == 1 && where[0] == "proof/..." && strings.HasPrefix(path, name) {
				t.Errorf("bin/botwired contains %s", path)
			}
		}
	}
}

// goCommand returns what a go command has printed. Its error has what it has complained of.
func goCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		err = errors.New(string(exit.Stderr))
	}
	return string(out), err
}
