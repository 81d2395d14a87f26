package docs

import (
	"strings"
	"testing"
)

// README says that nothing can be installed by name, for as long as CHANGELOG says that nothing is released:
// somebody else may own the names.
func TestREADMESaysWhatIsPublished(t *testing.T) {
	const notPublished = "\nNothing is published yet: build it.\n"
	readme, changes := readFile(t, "README.md"), readFile(t, "CHANGELOG.md")
	if says, is := strings.Contains(readme, notPublished), !strings.Contains(changes, "\nNothing is released yet"); says == is {
		t.Errorf("CHANGELOG.md says that a version is released: %t, and README.md that nothing is published: %t", is, says)
	}
	if head, _, _ := strings.Cut(readme, "\n## "); strings.Count(head, "\n") > 20 {
		t.Error("README.md's first section does not begin on its first screen")
	}
	if first := strings.Index(readme, "bin/botwired set "); first < 0 || first > strings.Index(readme, "\n|") {
		t.Error("README.md's first remembered value does not stand before its first table")
	}
}
