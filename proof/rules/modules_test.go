package rules

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modFolders are the folders of the modules that the rules are about: the product's, and those of the
// servers and the cryptography that it is tested with.
var modFolders = []string{".", "proof/cluster", "proof/tink"}

// Each go.mod names what the code imports, and nothing else.
func TestModulesAreTidy(t *testing.T) {
	for _, folder := range modFolders {
		out, err := goCommand(t, folder, "mod", "tidy", "-diff")
		if err != nil && out == "" {
			t.Errorf("go mod tidy cannot look at %s, and needs a module proxy for that: %v", folder, err)
		}
		if out != "" {
			t.Errorf("run go mod tidy in %s:\n%s", folder, out)
		}
	}
}

// The table of modules names what the files go.mod require, and nothing else.
func TestModulesAreTheAgreedOnes(t *testing.T) {
	required := make(map[string]bool)
	for _, folder := range modFolders {
		text, err := os.ReadFile(filepath.Join(root, folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for name := range requirements(string(text)) {
			required[name] = true
		}
	}
	delete(required, module) // which the other modules test
	for name := range required {
		if modules[name] == nil {
			t.Errorf("nobody has agreed to %s", name)
		}
	}
	for name := range modules {
		if !required[name] {
			t.Errorf("no go.mod requires %s", name)
		}
	}
}

// requirements are the modules that a go.mod requires itself.
func requirements(text string) map[string]bool {
	found := make(map[string]bool)
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "require ")
		if name, _, ok := strings.Cut(line, " v"); ok && !strings.Contains(line, "// indirect") {
			found[name] = true
		}
	}
	return found
}

// tooLarge are packages that would have the linker keep every exported method of the program, a quarter of it.
var tooLarge = []string{"html/template", "google.golang.org/grpc", "golang.org/x/net/trace"}

// The program contains no module that only tests need, and no package that makes it much larger.
func TestProgramHasNoTestModules(t *testing.T) {
	out, err := goCommand(t, ".", "list", "-deps", "./cmd/botwired")
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(out)
	if len(packages) < 100 {
		t.Fatalf("only %d packages were found", len(packages))
	}
	for _, path := range packages {
		if slices.Contains(tooLarge, path) {
			t.Errorf("bin/botwired contains %s", path)
		}
		for name, where := range modules {
			if fits("proof/...", where[0]) && len(where) == 1 && strings.HasPrefix(path, name) {
				t.Errorf("bin/botwired contains %s", path)
			}
		}
	}
}

// goCommand returns what a go command has printed in a folder. Its error has what it has complained of.
func goCommand(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join(root, folder)
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		err = errors.New(string(exit.Stderr))
	}
	return string(out), err
}
