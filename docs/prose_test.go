package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// actorless is the beginning of a sentence whose subject is a clause: the reader has to wait for who does something.
var actorless = regexp.MustCompile(`(?:^|[.:;] |\| )(?:What|Who|Whoever|Those who) [^?]*$`)

// A sentence of a page names its actor first. The settings' reference has fragments such as "What upstream allows.", and
// the tables of contract.md quote the tests.
func TestSentencesNameTheirActor(t *testing.T) {
	for _, p := range pages(t) {
		if slices.Contains([]string{"docs/settings.md", "docs/contract.md"}, p.path) {
			continue
		}
		for _, l := range p.prose {
			if !strings.HasPrefix(l.text, "#") && actorless.MatchString(l.text) {
				t.Errorf("%s:%d: %s", p.path, l.number, l.text)
			}
		}
	}
	for text, wrong := range map[string]bool{
		"It is there. What loses is kept.": true, "botwired keeps the write that loses.": false, "Whoever has it may read.": true, "What now?": false,
	} {
		if actorless.MatchString(text) != wrong {
			t.Errorf("%q: the rule does not see what it is there for", text)
		}
	}
}
