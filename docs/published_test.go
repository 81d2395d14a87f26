package docs

import (
	"regexp"
	"strings"
	"testing"
)

var (
	promise  = regexp.MustCompile(`(?m)^- \*\*(.+?)\.\*\* (.+(?:\n  .+)*)`)
	measured = regexp.MustCompile("([^`]+)\\(`make ([a-z]+)`\\)")
	remark   = regexp.MustCompile(`<!--.*?-->`)
	figure   = regexp.MustCompile(`\d[\d.,]*\d|\d`)
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
	before, _, _ := strings.Cut(remark.ReplaceAllString(readme, ""), "bin/botwired set ")
	if words := len(strings.Fields(before)); words > 180 {
		t.Errorf("README.md has %d words before its first remembered value", words)
	}
	if first := strings.Index(readme, "bin/botwired set "); first < 0 || first > strings.Index(readme, "\n|") {
		t.Error("README.md's first remembered value does not stand before its first table")
	}
}

// README's first screen has a command or a figure for each promise, and each figure is in the table that the command
// beside it writes: a new measurement does not leave an old figure there.
func TestREADMEsPromisesHaveTheirFigures(t *testing.T) {
	readme := readFile(t, "README.md")
	head, _, _ := strings.Cut(readme, "\n## ")
	promises, figures := promise.FindAllStringSubmatch(head, -1), 0
	for _, p := range promises {
		if !strings.Contains(p[2], "`") {
			t.Errorf("%q has no command", p[1])
		}
		for _, m := range measured.FindAllStringSubmatch(p[2], -1) {
			_, table, written := strings.Cut(readme, "<!-- "+m[2]+" -->")
			table, _, _ = strings.Cut(table, "<!-- /"+m[2]+" -->")
			for _, number := range figure.FindAllString(m[1], -1) {
				figures++
				if !written || !regexp.MustCompile(`(^|[^\d.,])`+regexp.QuoteMeta(number)+`([^\d.,]|[.,]?\s|$)`).MatchString(table) {
					t.Errorf("%q: make %s writes no %s", p[1], m[2], number)
				}
			}
		}
	}
	if len(promises) != 5 || figures < 5 {
		t.Errorf("only %d promises and %d figures were found", len(promises), figures)
	}
}
