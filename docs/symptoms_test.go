package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// programTexts are the texts in the program's sources, one after the other.
func programTexts(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range []string{"cmd/botwired", "config", "internal", "journal", "mcp", "proxy", "upstream"} {
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(folder)), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if e, ok := n.(ast.Expr); ok {
					if value, isText := text(e); isText {
						all.WriteString(value + "\n")
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// joint is where the program puts a text together: at what it fills in, and between a heading and its reason.
var joint = regexp.MustCompile(`…|\d+|: |, `)

// says reports whether the texts have a symptom: each piece between its joints.
func says(texts, symptom string) bool {
	for _, piece := range joint.Split(symptom, -1) {
		if !strings.Contains(texts, strings.TrimSpace(piece)) {
			return false
		}
	}
	return true
}

// The symptoms of troubleshooting.md are words that the program prints: who looks for them there finds them.
func TestSymptomsAreTheProgramsWords(t *testing.T) {
	texts, count := programTexts(t), 0
	for number, row := range strings.Split(readDoc(t, "troubleshooting.md"), "\n") {
		symptom, ok := strings.CutPrefix(row, "| ")
		if !ok {
			continue
		}
		symptom, _, _ = strings.Cut(symptom, " | ")
		for _, span := range code.FindAllString(symptom, -1) {
			count++
			if span = strings.Trim(span, "`"); !says(texts, span) {
				t.Errorf("troubleshooting.md:%d: nothing in the program says %q", number+1, span)
			}
		}
	}
	if count < 40 {
		t.Errorf("only %d symptoms were found", count)
	}
	if says(texts, "the daemon is tired") || !says(texts, "upstream.url is …, but the directory belongs to …") {
		t.Error("the test does not see what it is there for")
	}
}
