package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

func (s *scanner) string() error {
	begin := s.pos
	for i := begin + 1; i < len(s.text); {
		switch c := s.text[i]; {
		case c == '"':
			s.pos = i + 1
			return nil
		case c < ' ':
			return s.fail("Invalid control character at", i)
		case c != '\\':
			i++
		case i+1 == len(s.text):
			return s.fail("Unterminated string starting at", begin)
		case s.text[i+1] == 'u':
			// Four digits must be there, and something after them.
			if i+6 >= len(s.text) || !isHex(s.text[i+2:i+6]) {
				return s.fail(`Invalid \uXXXX escape`, i+1)
			}
			i += 6
		case unescaped(s.text[i+1]) == 0:
			return s.fail(`Invalid \escape`, i)
		default:
			i += 2
		}
	}
	return s.fail("Unterminated string starting at", begin)
}

// unquote decodes a string that has been scanned, quotes included, to WTF-8. Two escapes that form a
// surrogate pair become one character; a surrogate in any other company stays alone.
func unquote(quoted []byte) []byte {
	raw := quoted[1 : len(quoted)-1]
	next := bytes.IndexByte(raw, '\\')
	if next < 0 {
		return raw
	}
	text := make([]byte, 0, len(raw))
	for ; next >= 0; next = bytes.IndexByte(raw, '\\') {
		text = append(text, raw[:next]...)
		r, size := unescape(raw[next:])
		text = appendRune(text, r)
		raw = raw[next+size:]
	}
	return append(text, raw...)
}

// unescape decodes the escape at the start of raw, or the two that form a surrogate pair.
func unescape(raw []byte) (r rune, size int) {
	if raw[1] != 'u' {
		return rune(unescaped(raw[1])), 2
	}
	r = hexRune(raw[2:6])
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(raw[8:12])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return r, 6
}

// unescaped is the character that a backslash and c stand for, or 0.
func unescaped(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

func isHex(digits []byte) bool {
	for _, c := range digits {
		if _, ok := hexDigit(c); !ok {
			return false
		}
	}
	return true
}

func hexRune(digits []byte) rune {
	var r rune
	for _, c := range digits {
		d, _ := hexDigit(c)
		r = r<<4 | d
	}
	return r
}

func hexDigit(c byte) (rune, bool) {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0'), true
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10, true
	}
	return 0, false
}
