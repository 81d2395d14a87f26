package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// change replaces the bytes of a file from one offset to another.
type change struct {
	from, to int
	with     string
}

// apply returns the files that the mutant changes, as they are with the changes.
func (m *mutant) apply(t *tree) (map[string]string, error) {
	changes := make(map[*source][]change)
	for _, e := range m.edits {
		a, ok := t.anchors[e.anchor]
		if !ok {
			return nil, fmt.Errorf("the code has no anchor // guard %s", e.anchor)
		}
		made, err := e.changes(a)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", a.file.name, a.line, e.op, err)
		}
		changes[a.file] = append(changes[a.file], made...)
	}
	changed := make(map[string]string, len(changes))
	for file, list := range changes {
		text, err := file.with(list)
		if err != nil {
			return nil, err
		}
		changed[file.name] = text
	}
	return changed, nil
}

// with is the file's text with the changes made.
func (s *source) with(list []change) (string, error) {
	slices.SortStableFunc(list, func(a, b change) int { return cmp.Or(a.from-b.from, a.to-b.to) })
	var out bytes.Buffer
	end := 0
	for _, c := range list {
		if c.from < end {
			return "", fmt.Errorf("%s: two changes of one row overlap", s.name)
		}
		out.Write(s.text[end:c.from])
		out.WriteString(c.with)
		end = c.to
	}
	out.Write(s.text[end:])
	return out.String(), nil
}

// changes says what the edit makes of the file that its anchor is in.
func (e *edit) changes(a anchor) ([]change, error) {
	s := a.file
	n, ofValues, err := a.node()
	if err != nil {
		return nil, err
	}
	if ofValues && (e.op == "never" || e.op == "always") {
		return nil, errors.New("a case of values is no condition: drop it")
	}
	from, to := s.offset(n.Pos()), s.offset(n.End())
	switch e.op {
	case "never":
		return s.around(conditions(n), "false && (", ")")
	case "always":
		return s.around(conditions(n), "true || (", ")")
	case "drop":
		c, err := drop(s, n)
		return []change{c}, err
	case "before":
		return []change{{from, from, e.with}}, nil
	case "after":
		return []change{{to, to, "\n" + e.with}}, nil
	case "becomes":
		c, err := drop(s, n)
		if err != nil {
			c.from, c.to = from, to
		}
		c.with += "\n" + e.with
		return []change{c}, nil
	}
	code := s.head(n)
	if count := bytes.Count(code, []byte(e.old)); count != 1 {
		return nil, fmt.Errorf("the code has `%s` %d times:\n%s", e.old, count, s.text[from:from+len(code)])
	}
	from += bytes.Index(code, []byte(e.old))
	return []change{{from, from + len(e.old), e.with}}, nil
}

// conditions are the expressions that decide.
func conditions(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.IfStmt:
		return []ast.Expr{n.Cond}
	case *ast.ForStmt:
		if n.Cond != nil {
			return []ast.Expr{n.Cond}
		}
	case *ast.CaseClause:
		return n.List
	case *ast.ReturnStmt:
		if len(n.Results) == 1 {
			return n.Results
		}
	case *ast.AssignStmt:
		if len(n.Rhs) == 1 {
			return n.Rhs
		}
	case *ast.KeyValueExpr:
		return []ast.Expr{n.Value}
	case ast.Expr:
		return []ast.Expr{n}
	}
	return nil
}

func (s *source) around(list []ast.Expr, open, end string) (made []change, err error) {
	if len(list) == 0 {
		return nil, errors.New("the code has no condition")
	}
	for _, x := range list {
		from, to := s.offset(x.Pos()), s.offset(x.End())
		made = append(made, change{from, to, open + string(s.text[from:to]) + end})
	}
	return made, nil
}

// drop takes a statement, a case or an element out. A statement stays as dead code, so
// that its variables and imports are still used.
func drop(s *source, n ast.Node) (change, error) {
	from, to := s.offset(n.Pos()), s.offset(n.End())
	assign, ok := n.(*ast.AssignStmt)
	declares := ok && assign.Tok == token.DEFINE
	switch n.(type) {
	case ast.Expr:
		if s.text[to] == ',' { // an element, a field or an argument
			return change{from, to + 1, ""}, nil
		}
	case *ast.CaseClause, *ast.CommClause:
		return change{from, to, ""}, nil
	case *ast.DeclStmt:
		declares = true
	}
	if _, ok := n.(ast.Stmt); ok && !declares {
		return change{from, to, "if false {\n" + string(s.text[from:to]) + "\n}"}, nil
	}
	return change{}, errors.New("it is no statement, or declares what is needed")
}

// head is the code of n up to the lines of its block, with spaces for comments. It is all
// of n if n has no block, or has it on one line.
func (s *source) head(n ast.Node) []byte {
	from, to := s.offset(n.Pos()), s.offset(n.End())
	if begin := block(n); begin.IsValid() && s.position(begin).Line != s.position(n.End()).Line {
		to = s.offset(begin) + 1
	}
	code := bytes.Clone(s.text[from:to])
	for _, group := range s.ast.Comments {
		for i := max(s.offset(group.Pos()), from); i < min(s.offset(group.End()), to); i++ {
			code[i-from] = ' '
		}
	}
	return code
}

// block is where the block of n begins.
func block(n ast.Node) token.Pos {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if n.Body != nil {
			return n.Body.Lbrace
		}
	case *ast.IfStmt:
		return n.Body.Lbrace
	case *ast.ForStmt:
		return n.Body.Lbrace
	case *ast.RangeStmt:
		return n.Body.Lbrace
	case *ast.SwitchStmt:
		return n.Body.Lbrace
	case *ast.TypeSwitchStmt:
		return n.Body.Lbrace
	case *ast.CaseClause:
		return n.Colon
	case *ast.CommClause:
		return n.Colon
	}
	return token.NoPos
}
