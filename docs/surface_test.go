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
)

// proxySources are the files of the package proxy without its tests.
func proxySources(t *testing.T) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob("../proxy/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// text is a string literal's value.
func text(e ast.Expr) (value string, ok bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(lit.Value)
	return value, err == nil
}

// endpoints are the operations in proxy/surface.go, as "GET status", those with a number in their
// path, and those that are no part of the surface's table.
func endpoints(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{
		"GET dead-letters/{id}": true, "DELETE dead-letters/{id}": true, "POST dead-letters/{id}/retry": true,
		"POST dead-letters/retry": true, "GET receipts/{seq}": true,
		"POST append": true, "POST undo": true, "POST mcp": true,
	}
	for _, file := range proxySources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			path, isPath := text(pair.Key)
			if name, ok := pair.Key.(*ast.Ident); ok {
				path, isPath = strings.CutSuffix(name.Name, "Path") // a constant of that name
			}
			lit, isLit := pair.Value.(*ast.CompositeLit)
			if !isPath || !isLit || len(lit.Elts) != 3 {
				return true
			}
			if method, ok := lit.Elts[0].(*ast.SelectorExpr); ok && strings.HasPrefix(method.Sel.Name, "Method") {
				found[strings.ToUpper(strings.TrimPrefix(method.Sel.Name, "Method"))+" "+path] = true
			}
			return true
		})
	}
	return found
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	all, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// letters is how the document shortens the paths of dead letters.
var letters = regexp.MustCompile("(`[A-Z]+) …/")

var endpoint = regexp.MustCompile("`(GET|POST|DELETE) /_botwired/([a-z.-]+(?:/[a-z{}-]+)*)")

// Every operation of the daemon's own surface is in docs/http.md, and no other is.
func TestEndpointsAreDocumented(t *testing.T) {
	found, documented := endpoints(t), make(map[string]bool)
	for _, m := range endpoint.FindAllStringSubmatch(letters.ReplaceAllString(readDoc(t, "http.md"), "$1 /_botwired/dead-letters/"), -1) {
		documented[m[1]+" "+m[2]] = true
	}
	if len(found) < 15 {
		t.Errorf("only %d operations were found", len(found))
	}
	for name := range found {
		if !documented[name] {
			t.Errorf("docs/http.md lacks %s", name)
		}
	}
	for name := range documented {
		if !found[name] {
			t.Errorf("docs/http.md has %s, which the daemon does not answer", name)
		}
	}
}

// describedPath is a path of the daemon's own surface in openapi.yaml, or a method of the path before.
var describedPath = regexp.MustCompile(`(?m)^ {2}(/\S+):$|^ {4}(get|put|post|delete):$`)

// Every operation of the daemon's own surface is in openapi.yaml, and no other is. The tests of the
// package proxy hold the answers against it.
func TestEndpointsAreDescribed(t *testing.T) {
	found, path, described := endpoints(t), "", make(map[string]bool)
	for _, m := range describedPath.FindAllStringSubmatch(readDoc(t, "../proxy/openapi/openapi.yaml"), -1) {
		if m[1] != "" {
			path = m[1]
		} else if own, ok := strings.CutPrefix(path, "/_botwired/"); ok && own != "" {
			described[strings.ToUpper(m[2])+" "+own] = true
		}
	}
	for name := range found {
		if !described[name] {
			t.Errorf("openapi.yaml lacks %s", name)
		}
	}
	for name := range described {
		if !found[name] {
			t.Errorf("openapi.yaml has %s, which the daemon does not answer", name)
		}
	}
}

var eventRow = regexp.MustCompile("(?m)^\\| event `([a-z]+)` \\|")

// Every event is in docs/http.md, in a row that begins with "event" and its name, and no other
// is. The package proxy names its events in constants that begin with "event".
func TestEventsAreDocumented(t *testing.T) {
	found, documented := make(map[string]bool), make(map[string]bool)
	for _, file := range proxySources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			for i, name := range spec.Names {
				value, isText := text(spec.Values[i])
				if isText && strings.HasPrefix(name.Name, "event") {
					found[value] = true
				}
			}
			return true
		})
	}
	for _, m := range eventRow.FindAllStringSubmatch(readDoc(t, "http.md"), -1) {
		documented[m[1]] = true
	}
	for name := range found {
		if !documented[name] {
			t.Errorf("docs/http.md lacks the event %s", name)
		}
	}
	for name := range documented {
		if !found[name] {
			t.Errorf("docs/http.md has an event %s, which the daemon does not send", name)
		}
	}
}
