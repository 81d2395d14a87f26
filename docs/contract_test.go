// Package docs holds the documents about botwired, and tests that they are true.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	named  = regexp.MustCompile(`^(Test|Fuzz)[A-Z]`)
)

// Every test that the proof of the contract names is in the package that it names.
func TestProofNamesTestsThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "proof", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	packages := make(map[string]tests)
	count := 0
	for i, line := range strings.Split(string(text), "\n") {
		var in tests
		for _, match := range quoted.FindAllStringSubmatch(line, -1) {
			word := match[1]
			if !named.MatchString(word) {
				if in = packages[word]; in == nil {
					in = testsOf(t, word)
					packages[word] = in
				}
				continue
			}
			count++
			if !in.have(word) {
				t.Errorf("proof/contract.md:%d: there is no %s there", i+1, word)
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d tests are named", count)
	}
}

// tests holds a package's test functions, and all strings in them: one of the strings
// names a subtest.
type tests map[string]bool

// have takes the name of a subtest as go test prints it, and as the source has it.
func (ts tests) have(name string) bool {
	top, sub, nested := strings.Cut(name, "/")
	if !ts[top] || !nested {
		return ts[top]
	}
	// A test makes its numbers while it runs.
	sub = strings.TrimLeft(sub, "0123456789")
	for text := range ts {
		if strings.HasSuffix(strings.ReplaceAll(text, " ", "_"), strings.ReplaceAll(sub, " ", "_")) {
			return true
		}
	}
	return false
}

// testsOf reads a folder's tests. A word that is no folder has none.
func testsOf(t *testing.T, folder string) tests {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*_test.go"))
	if err != nil {
		return tests{} // the word is no folder's name
	}
	found := make(tests)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && named.MatchString(n.Name.Name) {
					found[n.Name.Name] = true
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					found[text] = true
				}
			}
			return true
		})
	}
	return found
}
