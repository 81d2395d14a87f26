package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"

	"github.com/botwired/botwired/proof/product"
)

// anchorID matches the name of an anchor: the point, a number within it, and a letter if
// the row of that number changes more than one place.
const anchorID = `[0-9]+\.[0-9]+[a-z]?`

var (
	anchorComment = regexp.MustCompile(`^// guard (` + anchorID + `(?:, ` + anchorID + `)*)$`)
	elseBefore    = regexp.MustCompile(`^\s*(\} else )?$`)
)

// tree is the product's source, and where the anchors are in it.
type tree struct {
	anchors map[string]anchor
}

// anchor is a place in a file of the tree: the line of the code that it stands at.
type anchor struct {
	file *source
	line int
}

// source is one file.
type source struct {
	name string // slash-separated, from the root of the tree
	text []byte
	set  *token.FileSet
	ast  *ast.File
}

// readTree finds the anchors. It fails if two have the same name.
func readTree(root string) (*tree, error) {
	t := &tree{anchors: make(map[string]anchor)}
	err := product.EachFile(root, func(name string, text []byte) error {
		if !bytes.Contains(text, []byte("// guard ")) {
			return nil
		}
		return t.add(name, text)
	})
	return t, err
}

// add takes the anchors of one file.
func (t *tree) add(name string, text []byte) error {
	s, err := parse(name, text)
	if err != nil {
		return err
	}
	for _, group := range s.ast.Comments {
		for _, c := range group.List {
			match := anchorComment.FindStringSubmatch(c.Text)
			if match == nil {
				continue
			}
			line := s.position(c.Pos()).Line
			if len(bytes.TrimSpace(s.before(c.Pos()))) == 0 {
				line++ // it has a line of its own, above the code
			}
			for id := range strings.SplitSeq(match[1], ", ") {
				if other, ok := t.anchors[id]; ok {
					return fmt.Errorf("%s:%d and %s:%d have the anchor %s both", other.file.name, other.line, name, line, id)
				}
				t.anchors[id] = anchor{s, line}
			}
		}
	}
	return nil
}

func parse(name string, text []byte) (*source, error) {
	s := &source{name: name, text: text, set: token.NewFileSet()}
	var err error
	s.ast, err = parser.ParseFile(s.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

func (s *source) position(p token.Pos) token.Position { return s.set.PositionFor(p, false) }

func (s *source) offset(p token.Pos) int { return s.position(p).Offset }

// before is the part of a line that is before p.
func (s *source) before(p token.Pos) []byte {
	end := s.offset(p)
	return s.text[bytes.LastIndexByte(s.text[:end], '\n')+1 : end]
}

// node finds the anchor's node: the largest declaration, statement, clause, field or
// expression that begins the line, or follows an else there. It tells a case of values
// or types, which is no condition.
func (a anchor) node() (found ast.Node, ofValues bool, err error) {
	ast.Inspect(a.file.ast, func(n ast.Node) bool {
		if n == nil || found != nil || a.line < a.file.position(n.Pos()).Line || a.line > a.file.position(n.End()).Line {
			return false
		}
		switch n := n.(type) {
		case *ast.SwitchStmt:
			ofValues = n.Tag != nil
		case *ast.TypeSwitchStmt:
			ofValues = true
		}
		switch n.(type) {
		case ast.Stmt, ast.Decl, ast.Spec, *ast.Field, ast.Expr:
			if a.file.position(n.Pos()).Line == a.line && elseBefore.Match(a.file.before(n.Pos())) {
				found = n
			}
		}
		return found == nil
	})
	if found == nil {
		return nil, false, fmt.Errorf("%s:%d: no code begins on the line of an anchor", a.file.name, a.line)
	}
	_, clause := found.(*ast.CaseClause)
	return found, clause && ofValues, nil
}
