package rules

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var unracedTests = regexp.MustCompile(`(?m)^UNRACED_TESTS := (?:\$\(UNRACED_TESTS\)\|)?(\S+)$`)

// Each test that make race leaves out exists, where make test APART=race finds it.
func TestUnracedTestsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, line := range unracedTests.FindAllStringSubmatch(string(makefile), -1) {
		for name := range strings.SplitSeq(line[1], "|") {
			count++
			if !strings.Contains(all.String(), "\nfunc "+name+"(t *testing.T)") {
				t.Errorf("the Makefile has %s run without the race detector, and there is no such test", name)
			}
		}
	}
	if count < 5 {
		t.Errorf("only %d tests were found in the Makefile", count)
	}
}
