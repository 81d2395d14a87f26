package wire_test

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/wire"
)

func TestAuthor(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"nightly job":            "nightly job",
		" Müller\t\n":            "Müller",
		"\x1b[31mred":            "[31mred",
		strings.Repeat("ü", 64):  strings.Repeat("ü", 64),
		strings.Repeat("ü", 65):  strings.Repeat("ü", 64),
		"half a character: \xc3": "half a character: \uFFFD",
	} {
		if got := wire.Author(text); got != want {
			t.Errorf("the author of %q is %q, want %q", text, got, want)
		}
		if got := wire.IsAuthor(text); got != (text == want && text != "") {
			t.Errorf("%q is an author: %v", text, got)
		}
	}
	for agent, want := range map[string]string{
		"":                             "",
		"python-requests/2.31":         "python-requests",
		"Mozilla/5.0 (X11; Linux)":     "Mozilla",
		"curl":                         "curl",
		"my agent":                     "my",
		"(comment)":                    "",
		strings.Repeat("a", 70) + "/1": strings.Repeat("a", 64),
	} {
		if got := wire.Product(agent); got != want {
			t.Errorf("the product of %q is %q, want %q", agent, got, want)
		}
	}
}

// A name of megabytes, as an MCP client or another host may give one, costs no more than to read it once.
func TestAuthorOfALongText(t *testing.T) {
	if got := wire.Author(strings.Repeat("ü", 4<<20)); got != strings.Repeat("ü", 64) {
		t.Errorf("the author is %q", got)
	}
}
