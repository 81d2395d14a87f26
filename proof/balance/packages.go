package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/botwired/botwired/proof/product"
)

// pkg is a folder of the product. Its lines and files are those of all platforms.
type pkg struct {
	folder       string // slash-separated, from the root
	lines, files int
	exported     int // names, with the methods of types
	uses, back   int
	compiled     []string // on this platform
	importPath   string
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// readPackages reads the product's packages, the largest first.
func readPackages(root string) ([]*pkg, error) {
	found, err := countLines(root)
	if err != nil {
		return nil, err
	}
	out, err := command(root, "list", "-export", "-deps", "-trimpath", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		folder, err := filepath.Rel(root, l.Dir)
		if p := found[filepath.ToSlash(folder)]; err == nil && p != nil {
			p.compiled, p.importPath = l.GoFiles, l.ImportPath
		}
	}
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var list []*pkg
	for _, p := range found {
		if err := p.read(root, set, imports); err != nil {
			return nil, fmt.Errorf("%s: %w", p.folder, err)
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *pkg) int {
		return cmp.Or(cmp.Compare(b.lines, a.lines), strings.Compare(a.folder, b.folder))
	})
	return list, nil
}

// countLines finds the folders that have product code. It leaves out generated files.
func countLines(root string) (map[string]*pkg, error) {
	found := make(map[string]*pkg)
	err := product.EachFile(root, func(name string, text []byte) error {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		folder := path.Dir(name)
		if found[folder] == nil {
			found[folder] = &pkg{folder: folder}
		}
		found[folder].files++
		found[folder].lines += bytes.Count(text, []byte("\n"))
		return nil
	})
	return found, err
}

// read counts what the package exports, and the uses among its files.
func (p *pkg) read(root string, set *token.FileSet, imports types.Importer) error {
	var files []*ast.File
	for _, name := range p.compiled {
		f, err := parser.ParseFile(set, filepath.Join(root, filepath.FromSlash(p.folder), name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: imports}
	checked, err := conf.Check(p.importPath, set, files, info)
	if err != nil {
		return err
	}
	p.exported = countExported(checked)
	file := func(at token.Pos) int {
		return slices.Index(p.compiled, filepath.Base(set.PositionFor(at, false).Filename))
	}
	uses := make([][]int, len(files))
	for i := range uses {
		uses[i] = make([]int, len(files))
	}
	for name, object := range info.Uses {
		if object.Pkg() != checked {
			continue
		}
		if from, to := file(name.Pos()), file(object.Pos()); from != to {
			uses[from][to]++
			p.uses++
		}
	}
	p.back = backward(uses)
	return nil
}

func countExported(p *types.Package) (n int) {
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		n++
		if named, ok := object.Type().(*types.Named); ok && isType(object) {
			for m := range named.Methods() {
				if m.Exported() {
					n++
				}
			}
		}
	}
	return n
}

func isType(o types.Object) bool {
	_, ok := o.(*types.TypeName)
	return ok
}
