package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
)

// Every row leaves code that compiles: a row whose names have moved on would be found only by a
// whole run otherwise.
func TestRowsCompile(t *testing.T) {
	tree, err := readTree(root)
	if err != nil {
		t.Fatal(err)
	}
	c := newChecker(t)
	for _, m := range rows(t) {
		changed, err := m.apply(tree)
		if err != nil {
			t.Errorf("%s: %v", &m, err)
			continue
		}
		folders := make(map[string]bool)
		for name := range changed {
			folders[path.Dir(name)] = true
		}
		for folder := range folders {
			if err := c.check(folder, changed); err != nil {
				t.Errorf("%s: %v", &m, err)
			}
		}
	}
}

// checker checks the types of packages of the tree.
type checker struct {
	set      *token.FileSet
	packages map[string]listed // by folder
	imports  types.Importer
	parsed   map[string]*ast.File // by path from the root
}

// listed is what go list says of a package.
type listed struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	at, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,Module", "./...")
	list.Dir, list.Stderr = at, os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Start(); err != nil {
		t.Fatal(err)
	}
	c := &checker{set: token.NewFileSet(), packages: make(map[string]listed), parsed: make(map[string]*ast.File)}
	exports := make(map[string]string)
	for decoder := json.NewDecoder(out); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module == nil || !p.Module.Main {
			continue
		}
		folder, err := filepath.Rel(at, p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		c.packages[filepath.ToSlash(folder)] = p
	}
	if err := list.Wait(); err != nil {
		t.Fatal(err)
	}
	c.imports = importer.ForCompiler(c.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c
}

// check checks the types of the package in a folder, with some of its files changed.
func (c *checker) check(folder string, changed map[string]string) error {
	p, ok := c.packages[folder]
	if !ok {
		return fmt.Errorf("%s is no package of the tree", folder)
	}
	var files []*ast.File
	for _, base := range p.GoFiles {
		file, err := c.file(path.Join(folder, base), filepath.Join(p.Dir, base), changed)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	_, err := (&types.Config{Importer: c.imports}).Check(p.ImportPath, c.set, files, nil)
	return err
}

func (c *checker) file(name, onDisk string, changed map[string]string) (*ast.File, error) {
	if text, ok := changed[name]; ok {
		return parser.ParseFile(c.set, name, text, parser.SkipObjectResolution)
	}
	if file := c.parsed[name]; file != nil {
		return file, nil
	}
	file, err := parser.ParseFile(c.set, onDisk, nil, parser.SkipObjectResolution)
	c.parsed[name] = file
	return file, err
}
