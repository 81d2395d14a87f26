package rules

import (
	"path"
	"strings"
	"testing"
)

// Every package says what it owns, in one file.
func TestPackageDocs(t *testing.T) {
	docs := make(map[string][]string) // the files with a doc, by folder
	for _, s := range sources(t) {
		docs[s.folder] = append(docs[s.folder], nil...)
		if s.file.Doc == nil {
			continue
		}
		docs[s.folder] = append(docs[s.folder], s.path)
		begins := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			begins = "Command " + path.Base(s.folder) + " "
		}
		if !strings.HasPrefix(s.file.Doc.Text(), begins) {
			t.Errorf("%s: the package's doc does not begin with %q", s.path, begins)
		}
	}
	for folder, files := range docs {
		if len(files) != 1 {
			t.Errorf("%s has %d package docs, and should have one: %s", folder, len(files), strings.Join(files, " "))
		}
	}
}
