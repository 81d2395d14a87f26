// Package marked replaces the parts of Markdown pages that programs write. A part named cost stands between
// the lines <!-- cost --> and <!-- /cost -->.
package marked

import (
	"fmt"
	"os"
	"strings"
)

// widest is the most characters of a line on a page, but for those of tables.
const widest = 120

// part is a page, cut before and after a part.
type part struct{ before, text, after string }

func cut(page, name string) (p part, err error) {
	content, err := os.ReadFile(page)
	if err != nil {
		return p, err
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	before, rest, begun := strings.Cut(string(content), begin)
	text, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		return p, fmt.Errorf("%s has no part between the lines %q and %q", page, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return part{before + begin, text, end + after}, nil
}

// Read returns the part of that name.
func Read(page, name string) (string, error) {
	p, err := cut(page, name)
	return p.text, err
}

// Write replaces the part of that name by a text, and breaks the text's lines as the page's are broken.
func Write(page, name, text string) error {
	p, err := cut(page, name)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(p.before+wrapped(text)+p.after), 0o644) //nolint:gosec // a page that everybody may read
}

// wrapped breaks lines that are not a table's.
func wrapped(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			b.WriteString(line)
			continue
		}
		length := 0
		for i, word := range strings.Fields(line) {
			switch {
			case i > 0 && length+1+len(word) > widest:
				b.WriteByte('\n')
				length = 0
			case i > 0:
				b.WriteByte(' ')
				length++
			}
			b.WriteString(word)
			length += len(word)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
