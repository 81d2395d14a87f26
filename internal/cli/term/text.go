package term

import (
	"strconv"
	"strings"
	"unicode"
)

// Printable makes foreign text safe for a terminal: it stays on one line, controls nothing, and cannot
// disguise itself as other text, for example with marks that reverse the writing direction.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if isHarmless(r) {
			return r
		}
		return ' '
	}, s)
}

// Harmless escapes characters that control a terminal: they could hide parts of a value, or type for
// the user.
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

// isHarmless reports whether a character only shows itself.
func isHarmless(r rune) bool {
	const joiner, nonJoiner = '\u200d', '\u200c' // needed in some scripts and emoji
	return r == joiner || r == nonJoiner || unicode.IsGraphic(r)
}
