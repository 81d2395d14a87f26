package term

import (
	"strconv"
	"strings"
	"unicode"
)

// Printable makes foreign text safe for a terminal: it stays on one line, controls nothing,
// and does not look like another text (marks that turn the direction of writing could do that).
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if isHarmless(r) {
			return r
		}
		return ' '
	}, s)
}

// Harmless replaces what would control a terminal, and so could hide what a value says or
// type for its reader.
func Harmless(value string) string {
	var b strings.Builder
	for _, r := range value {
		if r == '\n' || r == '\t' || isHarmless(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String()
}

// isHarmless reports whether a character is seen as what it is.
func isHarmless(r rune) bool {
	const joiner, nonJoiner = '\u200d', '\u200c' // letters and emoji need them
	return r == joiner || r == nonJoiner || unicode.IsGraphic(r)
}
