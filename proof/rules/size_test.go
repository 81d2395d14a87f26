package rules

import (
	"go/ast"
	"strings"
	"testing"
)

// Nobody reads larger ones in one go.
const (
	maxFile     = 450 // lines
	maxFunction = 70  // lines
	maxMethods  = 30
)

func TestSizes(t *testing.T) {
	methods := make(map[string]int)
	for _, s := range sources(t) {
		if s.lines > maxFile {
			t.Errorf("%s has %d lines, and %d are the most", s.path, s.lines, maxFile)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.span(f); n > maxFunction {
				t.Errorf("%s: %s has %d lines, and %d are the most", s.path, f.Name.Name, n, maxFunction)
			}
			if f.Recv != nil && !strings.HasSuffix(s.path, "_test.go") { // tests reach in by methods
				methods[s.folder+"."+receiver(f)]++
			}
		}
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods, and %d are the most: it is several things", name, n, maxMethods)
		}
	}
}

// receiver names the type that a method is of.
func receiver(f *ast.FuncDecl) string {
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}
