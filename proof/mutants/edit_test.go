package main

import (
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// code is a package whose every anchor has the number of its line.
const code = `package a

func f(a, b int, list []string) (ok bool) { // guard 1.3
	// guard 1.5
	if x := g(); x && a == b || a > 3 { // two of them
		h("a", "b") // guard 1.6
	} else if a > b { // guard 1.7
		return a < b // guard 1.8
	} else { // guard 1.9
		h(
			"a",
			"b", // guard 1.12
		)
	}
	switch { // guard 1.15
	case a == 1: // guard 1.16
		ok = true // guard 1.17
	case b == 1:
	}
	switch a {
	case 1: // guard 1.21, 2.1
	}
	y := T{
		A: a == b, // guard 1.24
	}
	for _, l := range list { // guard 1.26
		y.add(l)
	}
	z := a == b && // guard 1.29
		a == 4 // guard 1.30
	return y.A && z
}
`

func place(t *testing.T, files map[string]string) *tree {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := readTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// formatted is the code with old replaced, as gofmt has it.
func formatted(t *testing.T, text string, replace ...string) string {
	t.Helper()
	out, err := format.Source([]byte(strings.NewReplacer(replace...).Replace(text)))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestEdits(t *testing.T) {
	tree := place(t, map[string]string{"a/a.go": code})
	for _, c := range []struct {
		edit
		old, with string
	}{
		{edit{"1.5", "never", "", ""}, "x && a == b || a > 3 {", "false && (x && a == b || a > 3) {"},
		{edit{"1.5", "always", "", ""}, "x && a == b || a > 3 {", "true || (x && a == b || a > 3) {"},
		{edit{"1.5", "swap", " || a > 3", ""}, " || a > 3 {", " {"},
		{edit{"1.6", "drop", "", ""}, `h("a", "b")`, `if false { h("a", "b") }`},
		{edit{"1.6", "before", "", "i()\n"}, `h("a", "b")`, "i()\n" + `h("a", "b")`},
		{edit{"1.6", "after", "", "i()\n"}, `h("a", "b")`, `h("a", "b")` + "\ni()\n"},
		{edit{"1.6", "becomes", "", "i()\n"}, `h("a", "b")`, `if false { h("a", "b") }` + "\ni()\n"},
		{edit{"1.7", "never", "", ""}, "else if a > b", "else if false && (a > b)"},
		{edit{"1.8", "always", "", ""}, "return a < b", "return true || (a < b)"},
		{edit{"1.12", "drop", "", ""}, `"b", //`, "//"},
		{edit{"1.16", "never", "", ""}, "case a == 1", "case false && (a == 1)"},
		{edit{"1.21", "drop", "", ""}, "case 1: ", ""},
		{edit{"1.24", "never", "", ""}, "A: a == b,", "A: false && (a == b),"},
		{edit{"1.24", "drop", "", ""}, "A: a == b, //", "//"},
		{edit{"1.26", "swap", "list", "list[:0]"}, "range list", "range list[:0]"},
		{edit{"1.30", "never", "", ""}, "a == 4", "false && (a == 4)"},
		{edit{"1.3", "swap", "ok bool", "ok int"}, "ok bool", "ok int"},
	} {
		m := mutant{edits: []edit{c.edit}}
		changed, err := m.apply(tree)
		if err != nil {
			t.Errorf("%v: %v", c.edit, err)
			continue
		}
		want := formatted(t, code, c.old, c.with)
		if want == code {
			t.Errorf("%v: nothing is expected of it", c.edit)
		}
		if diff := cmp.Diff(want, formatted(t, changed["a/a.go"])); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.edit, diff)
		}
	}
}

// Edits of one row may be in the same file.
func TestEditsOfOneRow(t *testing.T) {
	tree := place(t, map[string]string{"a/a.go": code})
	m := mutant{edits: []edit{{anchor: "1.8", op: "never"}, {anchor: "1.7", op: "never"}}}
	changed, err := m.apply(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := formatted(t, code, "else if a > b", "else if false && (a > b)", "return a < b", "return false && (a < b)")
	if diff := cmp.Diff(want, formatted(t, changed["a/a.go"])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEditsThatDoNotApply(t *testing.T) {
	tree := place(t, map[string]string{"a/a.go": code})
	for name, list := range map[string][]edit{
		"there is no such anchor":          {{anchor: "1.99", op: "never"}},
		"the text is not there":            {{anchor: "1.5", op: "swap", old: "a != b"}},
		"the text is there twice":          {{anchor: "1.5", op: "swap", old: "x", with: "y"}},
		"the text is in the block only":    {{anchor: "1.26", op: "swap", old: "y.add"}},
		"the text is in the comment only":  {{anchor: "1.8", op: "swap", old: "guard"}},
		"a call is no condition":           {{anchor: "1.6", op: "never"}},
		"a case of values is no condition": {{anchor: "1.21", op: "never"}},
		"a declaration is needed":          {{anchor: "1.29", op: "drop"}},
		"two edits of the same code":       {{anchor: "1.8", op: "drop"}, {anchor: "1.8", op: "never"}},
	} {
		m := mutant{edits: list}
		if changed, err := m.apply(tree); err == nil {
			t.Errorf("%s, and it became\n%s", name, changed["a/a.go"])
		}
	}
}

// Anchors are the product's: those of tests and of what proves the product are not looked at.
func TestReadTree(t *testing.T) {
	line := "package a\n\nvar b = 1 // guard 1.1\n"
	tree := place(t, map[string]string{"a.go": line, "b/c/a.go": strings.ReplaceAll(line, "1.1", "1.2b, 3.4"),
		"b/a_test.go": line, "proof/a.go": line, "tools/a.go": line, "b/testdata/a.go": line, ".git/a.go": line})
	if len(tree.anchors) != 3 || tree.anchors["1.1"].file.name != "a.go" || tree.anchors["3.4"].file.name != "b/c/a.go" || tree.anchors["1.2b"].line != 3 {
		t.Errorf("the anchors: %v", tree.anchors)
	}
	dir := t.TempDir()
	for _, name := range []string{"a.go", "b.go"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readTree(dir); err == nil || !strings.Contains(err.Error(), "a.go:3 and b.go:3") {
		t.Errorf("an anchor twice: %v", err)
	}
}
