package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
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
	declared map[string]*ast.File // the same, without the functions' bodies
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
	c := &checker{set: token.NewFileSet(), packages: make(map[string]listed), parsed: make(map[string]*ast.File), declared: make(map[string]*ast.File)}
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

// check checks the types of the package in a folder, with some of its files changed. Where no declaration
// changes, the bodies of functions in the other files compile as before, and check leaves them out.
func (c *checker) check(folder string, changed map[string]string) error {
	p, ok := c.packages[folder]
	if !ok {
		return fmt.Errorf("%s is no package of the tree", folder)
	}
	parsed := make(map[string]*ast.File) // the changed files
	onlyBodies := true
	for _, base := range p.GoFiles {
		name := path.Join(folder, base)
		text, ok := changed[name]
		if !ok {
			continue
		}
		file, err := parser.ParseFile(c.set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		before, err := c.file(name, filepath.Join(p.Dir, base))
		if err != nil {
			return err
		}
		now, err := c.declarations(file)
		if err != nil {
			return err
		}
		then, err := c.declarations(before)
		if err != nil {
			return err
		}
		parsed[name] = file
		onlyBodies = onlyBodies && now == then
	}
	var files []*ast.File
	for _, base := range p.GoFiles {
		name := path.Join(folder, base)
		file := parsed[name]
		if file == nil {
			var err error
			if file, err = c.file(name, filepath.Join(p.Dir, base)); err != nil {
				return err
			}
			if onlyBodies {
				file = c.withoutBodies(name, file)
			}
		}
		files = append(files, file)
	}
	var faults []error
	fault := func(err error) {
		if e := (types.Error{}); onlyBodies && errors.As(err, &e) && parsed[c.set.Position(e.Pos).Filename] == nil {
			return // without the bodies, the file uses fewer of its imports
		}
		faults = append(faults, err)
	}
	// Check returns the first of the errors that it has handed to fault.
	_, _ = (&types.Config{Importer: c.imports, Error: fault}).Check(p.ImportPath, c.set, files, nil)
	return errors.Join(faults...)
}

// file parses a file of the tree once.
func (c *checker) file(name, onDisk string) (*ast.File, error) {
	if file := c.parsed[name]; file != nil {
		return file, nil
	}
	file, err := parser.ParseFile(c.set, onDisk, nil, parser.SkipObjectResolution)
	c.parsed[name] = file
	return file, err
}

func (c *checker) withoutBodies(name string, file *ast.File) *ast.File {
	if c.declared[name] == nil {
		c.declared[name] = bodiless(file)
	}
	return c.declared[name]
}

// bodiless copies a file without the bodies of its functions.
func bodiless(file *ast.File) *ast.File {
	with := *file
	with.Decls = slices.Clone(file.Decls)
	for i, d := range with.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			declared := *f
			declared.Body = nil
			with.Decls[i] = &declared
		}
	}
	return &with
}

// declarations prints what a file declares, without comments and the bodies of its functions.
func (c *checker) declarations(file *ast.File) (string, error) {
	declared := bodiless(file)
	declared.Comments = []*ast.CommentGroup{} // with nil, the printer takes those of the declarations
	var out strings.Builder
	err := printer.Fprint(&out, token.NewFileSet(), declared)
	return out.String(), err
}
