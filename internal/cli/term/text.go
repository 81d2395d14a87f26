package term

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
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

// HarmlessJSON escapes characters that control a terminal. The JSON means the same.
func HarmlessJSON(body []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(body) {
		if r < ' ' || isHarmless(r) { // JSON allows those below a space only between its values
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.Bytes()
}

// isHarmless reports whether a character only shows itself.
func isHarmless(r rune) bool {
	const joiner, nonJoiner = '\u200d', '\u200c' // needed in some scripts and emoji
	return r == joiner || r == nonJoiner || unicode.IsGraphic(r)
}
