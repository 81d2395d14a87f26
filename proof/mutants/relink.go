package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// noInlining compiles the tree's packages so that what imports a package does not hold code of it. Then a row that changes no
// declaration needs one package compiled, and the test program linked again: see relink.
const noInlining = "-gcflags=./...=-l"

// goPackage is what "go list" says of a package of a test program. One that is compiled anew for the tests has the program's
// name behind its import path: "a [a.test]".
type goPackage struct {
	ImportPath, Dir, Export string
	Name, ForTest           string
	GoFiles, Imports        []string
	EmbedFiles, SFiles      []string
}

// path returns the import path as the compiler and the linker know it.
func (p *goPackage) path() string { return pathOf(p.ImportPath) }

func pathOf(importPath string) string {
	path, _, _ := strings.Cut(importPath, " ")
	return path
}

func (p *goPackage) isProgram() bool {
	return p.Name == "main" && strings.HasSuffix(p.ImportPath, ".test")
}

// program is a test program, as the tree is.
type program struct {
	once     sync.Once
	err      error
	packages map[string]*goPackage // by import path; of two that are one to the linker, the one for the tests
	main     *goPackage
}

// program returns the test program of a package. It is built once.
func (l *lab) program(ctx context.Context, pkg, tags string) (*program, error) {
	made, _ := l.programs.LoadOrStore(pkg+" "+tags, new(program))
	p := made.(*program)
	p.once.Do(func() { p.err = p.list(ctx, l.root, pkg, tags) })
	return p, p.err
}

func (p *program) list(ctx context.Context, root, pkg, tags string) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-trimpath", "-test", "-deps", "-export", noInlining, "-tags", tags,
		"-json=ImportPath,Dir,Export,Name,ForTest,GoFiles,Imports,EmbedFiles,SFiles", pkg)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("listing the packages of the tests of %s: %w", pkg, err)
	}
	p.packages = make(map[string]*goPackage)
	for from := json.NewDecoder(strings.NewReader(string(out))); ; {
		one := new(goPackage)
		if err := from.Decode(one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		switch known := p.packages[one.path()]; {
		case one.isProgram():
			p.main = one
		case one.Export != "" && (known == nil || known.ForTest == ""):
			p.packages[one.path()] = one
		}
	}
	if p.main == nil {
		return fmt.Errorf("%s has no tests", pkg)
	}
	return nil
}

// errNotAlone says that a row changes more than the code of one package.
var errNotAlone = errors.New("the row changes more than the code of one package")

// relink compiles the one package that a row changes, and links the test program with it. The linker notices if a declaration
// has changed, and fails.
func (l *lab) relink(ctx context.Context, dir string, changed map[string]string, pkg, tags, program string) error {
	p, err := l.program(ctx, pkg, tags)
	if err != nil {
		return err
	}
	of, err := p.owner(l.root, changed)
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, "relinked")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	var files []string
	for _, name := range of.GoFiles {
		path := filepath.Join(of.Dir, name)
		if inTree, err := filepath.Rel(l.root, path); err != nil {
			return err
		} else if text, is := changed[filepath.ToSlash(inTree)]; is {
			path = filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				return err
			}
		}
		files = append(files, path)
	}
	var imports, linked strings.Builder
	for _, name := range of.Imports {
		if one := p.packages[pathOf(name)]; one != nil {
			fmt.Fprintf(&imports, "packagefile %s=%s\n", one.path(), one.Export)
		}
	}
	archive := filepath.Join(dir, "package.a")
	for _, one := range p.packages {
		file := one.Export
		if one == of {
			file = archive
		}
		fmt.Fprintf(&linked, "packagefile %s=%s\n", one.path(), file)
	}
	imported, all := filepath.Join(dir, "imports"), filepath.Join(dir, "linked")
	err = errors.Join(os.WriteFile(imported, []byte(imports.String()), 0o600), os.WriteFile(all, []byte(linked.String()), 0o600))
	if err != nil {
		return err
	}
	trim := dir + "=>" + of.path() + ";" + of.Dir + "=>" + of.path()
	compile := append([]string{"tool", "compile", "-o", archive, "-p", of.path(), "-l", "-complete", "-pack", "-trimpath", trim,
		"-importcfg", imported}, files...)
	for _, args := range [][]string{compile, {"tool", "link", "-o", program, "-importcfg", all, "-s", "-w", p.main.Export}} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = l.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go tool %s: %w\n%s", args[1], err, out)
		}
	}
	return nil
}

// owner returns the package that all changed files are of.
func (p *program) owner(root string, changed map[string]string) (of *goPackage, err error) {
	for file := range changed {
		path := filepath.Join(root, filepath.FromSlash(file))
		var found *goPackage
		for _, one := range p.packages {
			if one.Dir == filepath.Dir(path) && slices.Contains(one.GoFiles, filepath.Base(path)) {
				found = one
			}
		}
		if found == nil || of != nil && of != found || len(found.EmbedFiles)+len(found.SFiles) > 0 {
			return nil, errNotAlone
		}
		of = found
	}
	if of == nil {
		return nil, errNotAlone
	}
	return of, nil
}
