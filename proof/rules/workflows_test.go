package rules

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// workflow is a file of .github/workflows, as far as the rules are about it.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Steps       []step
	}
}

type step struct {
	Run, Uses string
	With      map[string]any
}

var (
	// runs is a step's whole command: a target, with variables of make's, or what CI is elsewhere.
	runs = regexp.MustCompile(`^(?:sudo env "PATH=\$PATH" )?(?:make ([a-z0-9]+)(?: [A-Z_]+=[A-Za-z0-9_/.-]+)*|\.ci/run)$`)
	uses = regexp.MustCompile(`^actions/(checkout|setup-go|setup-node)@(v\d+|[0-9a-f]{40})$`)
	// goVersion is exact: two releases of Go do not make the same bytes.
	goVersion = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
)

// A workflow does what a person can do here: each step is a target of the Makefile, or .ci/run.
func TestWorkflowsCallMake(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d workflows, %v", len(files), err)
	}
	versions := make(map[string]bool) // of Go
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found, err := judgeWorkflow(text, string(makefile), versions)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, wrong := range found {
			t.Errorf("%s: %s", filepath.Base(file), wrong)
		}
	}
	if len(versions) != 1 {
		t.Errorf("the workflows use several releases of Go: %q", slices.Sorted(maps.Keys(versions)))
	}
}

// judgeWorkflow says what is wrong with a workflow, and adds its releases of Go to versions.
func judgeWorkflow(text []byte, makefile string, versions map[string]bool) (wrong []string, err error) {
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		return nil, err
	}
	if !maps.Equal(w.Permissions, map[string]string{"contents": "read"}) {
		wrong = append(wrong, "its jobs may more than read the repository")
	}
	writers := make(map[string]int)
	for name, job := range w.Jobs {
		switch {
		case maps.Equal(job.Permissions, map[string]string{"contents": "write"}):
			writers["releases"]++
		case maps.Equal(job.Permissions, map[string]string{"contents": "read", "id-token": "write"}):
			writers["packages"]++
		case job.Permissions != nil:
			wrong = append(wrong, name+" may more than write releases, or more than publish packages")
		}
		for _, s := range job.Steps {
			switch command := runs.FindStringSubmatch(s.Run); {
			case s.Uses != "" && !uses.MatchString(s.Uses):
				wrong = append(wrong, name+" uses "+s.Uses)
			case s.Uses == "" && command == nil:
				wrong = append(wrong, name+" runs "+s.Run)
			case s.Uses == "" && command[1] != "" && !strings.Contains(makefile, "\n"+command[1]+":"):
				wrong = append(wrong, name+" makes "+command[1]+", which is no target")
			}
			if strings.HasPrefix(s.Uses, "actions/setup-go@") {
				version, _ := s.With["go-version"].(string)
				if !goVersion.MatchString(version) {
					wrong = append(wrong, name+" has no exact release of Go")
				}
				versions[version] = true
			}
		}
	}
	for what, count := range writers {
		if count > 1 {
			wrong = append(wrong, "several jobs may write "+what)
		}
	}
	return wrong, nil
}

// The rule sees what it is there for.
func TestBadWorkflowsAreSeen(t *testing.T) {
	const good = "permissions: {contents: read}\njobs:\n  a:\n    steps:\n      - run: make test\n"
	for change, to := range map[string]string{
		"":                         "",
		"make test":                "make tests",
		"make test\n":              "make test; curl example.org\n",
		"run: make test":           "run: go test ./...",
		"- run: make test":         "- uses: somebody/action@v1",
		"contents: read":           "contents: write",
		"permissions":              "x",
		"    steps:":               "    permissions: {packages: write}\n    steps:",
		"  a:":                     "  b: {permissions: {contents: write}}\n  c: {permissions: {contents: write}}\n  a:",
		"a:\n    steps:":           "a:\n    permissions: {contents: write, id-token: write}\n    steps:",
		"- run: make test\n":       "- uses: actions/setup-go@v6\n        with: {go-version: stable}\n",
		"      - run: make test\n": "      - run: |\n          make test\n          id\n",
	} {
		wrong, err := judgeWorkflow([]byte(strings.Replace(good, change, to, 1)), "\ntest: ## Run the tests\n", map[string]bool{})
		if isGood := strings.Replace(good, change, to, 1) == good; err != nil || (len(wrong) == 0) != isGood {
			t.Errorf("%q for %q: %q, %v", to, change, wrong, err)
		}
	}
}
