package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	root   = "../.."
	module = "github.com/botwired/botwired"
)

// source is one file of the tree, with any build tags.
type source struct {
	path   string // slash-separated, from the root of the tree
	folder string
	test   bool
	file   *ast.File
}

// tree reads the Go files of this module.
var tree = sync.OnceValues(func() ([]*source, error) {
	var all []*source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root {
			// A hidden folder is a tool's, bin is what was built, and tools is a module of its own.
			if strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "tools" || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		s, err := read(path)
		all = append(all, s)
		return err
	})
	return all, err
})

func read(path string) (*source, error) {
	name, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	s := &source{path: filepath.ToSlash(name), test: strings.HasSuffix(path, "_test.go")}
	s.folder, _ = strings.CutSuffix(s.path, "/"+filepath.Base(path))
	s.file, err = parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func sources(t *testing.T) []*source {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("only %d files were found", len(all))
	}
	return all
}
