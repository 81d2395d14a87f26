package wire

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxDepth bounds the nesting of a body, and with it the scanner's stack. BotWire stops where its
	// interpreter does, at 963 levels or more, depending on its version.
	maxDepth = 1000
	// maxDigits bounds an integer. BotWire's interpreter converts no longer one.
	maxDigits = 4300
)

// syntaxError says, in the words of BotWire's parser, why a text is not JSON. pos counts bytes.
type syntaxError struct {
	msg string
	pos int
}

func (e *syntaxError) Error() string { return e.msg }

type span struct{ start, end int }

// document is a JSON text whose syntax has been checked. If found, value is the last member called "value" of
// the outermost object.
type document struct {
	text  []byte
	root  span
	value span
	found bool
}

// scan checks text in one pass and builds nothing. It accepts what BotWire's parser accepts: JSON plus NaN,
// Infinity and -Infinity, without control characters in strings.
func scan(text []byte) (document, error) {
	s := scanner{text: text}
	s.space()
	start := s.pos
	if err := s.value(); err != nil {
		return document{}, err
	}
	doc := document{text: text, root: span{start, s.pos}, value: s.member, found: s.found}
	s.space()
	if s.pos < len(text) {
		return document{}, s.fail("Extra data", s.pos)
	}
	return doc, nil
}

type scanner struct {
	text   []byte
	pos    int
	depth  int
	member span // the last "value" of the outermost object
	found  bool
}

func (s *scanner) fail(msg string, pos int) error { return &syntaxError{msg, pos} }

func (s *scanner) at(c byte) bool { return s.pos < len(s.text) && s.text[s.pos] == c }

func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) value() error {
	if s.pos >= len(s.text) {
		return s.fail("Expecting value", s.pos)
	}
	switch s.text[s.pos] {
	case '"':
		return s.string()
	case '{':
		return s.nested('}')
	case '[':
		return s.nested(']')
	case 'n', 't', 'f', 'N', 'I', '-':
		if s.word() {
			return nil
		}
	}
	return s.number()
}

func (s *scanner) word() bool {
	for _, word := range [...]string{"null", "true", "false", "NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(s.text[s.pos:], []byte(word)) {
			s.pos += len(word)
			return true
		}
	}
	return false
}

func (s *scanner) nested(closing byte) error {
	if s.depth++; s.depth > maxDepth {
		return errUnreadable
	}
	s.pos++
	s.space()
	err := s.members(closing)
	s.depth--
	return err
}

func (s *scanner) members(closing byte) error {
	if s.at(closing) {
		s.pos++
		return nil
	}
	for {
		if err := s.one(closing); err != nil {
			return err
		}
		s.space()
		if s.at(closing) {
			s.pos++
			return nil
		}
		if !s.at(',') {
			return s.fail("Expecting ',' delimiter", s.pos)
		}
		s.pos++
		s.space()
	}
}

func (s *scanner) one(closing byte) error {
	if closing == '}' {
		return s.pair()
	}
	return s.value()
}

func (s *scanner) pair() error {
	if !s.at('"') {
		return s.fail("Expecting property name enclosed in double quotes", s.pos)
	}
	name := span{start: s.pos}
	if err := s.string(); err != nil {
		return err
	}
	name.end = s.pos
	s.space()
	if !s.at(':') {
		return s.fail("Expecting ':' delimiter", s.pos)
	}
	s.pos++
	s.space()
	start := s.pos
	if err := s.value(); err != nil {
		return err
	}
	if s.depth == 1 && string(unquote(s.text[name.start:name.end])) == "value" {
		s.member, s.found = span{start, s.pos}, true
	}
	return nil
}

// number takes the longest number that starts here. The caller checks what follows.
func (s *scanner) number() error {
	start := s.pos
	if s.at('-') {
		s.pos++
	}
	whole := s.pos
	if s.at('0') {
		s.pos++
	} else if s.digits(); s.pos == whole {
		s.pos = start
		return s.fail("Expecting value", start)
	}
	length := s.pos - whole
	fraction, exponent := s.fraction(), s.exponent()
	if !fraction && !exponent && length > maxDigits {
		return errUnreadable
	}
	return nil
}

func (s *scanner) digits() {
	for s.pos < len(s.text) && '0' <= s.text[s.pos] && s.text[s.pos] <= '9' {
		s.pos++
	}
}

func (s *scanner) fraction() bool {
	start := s.pos
	if !s.at('.') {
		return false
	}
	s.pos++
	if s.digits(); s.pos == start+1 {
		s.pos = start
		return false
	}
	return true
}

func (s *scanner) exponent() bool {
	start := s.pos
	if !s.at('e') && !s.at('E') {
		return false
	}
	s.pos++
	if s.at('+') || s.at('-') {
		s.pos++
	}
	first := s.pos
	if s.digits(); s.pos == first {
		s.pos = start
		return false
	}
	return true
}

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
			// Four digits must follow, and something after them.
			if i+6 >= len(s.text) || hexRune(s.text[i+2:i+6]) < 0 {
				return s.fail(`Invalid \uXXXX escape`, i+1)
			}
			i += 6
		case strings.IndexByte(escapes, s.text[i+1]) < 0:
			return s.fail(`Invalid \escape`, i)
		default:
			i += 2
		}
	}
	return s.fail("Unterminated string starting at", begin)
}

// unquote decodes a scanned string, quotes included. Two escapes that form a surrogate pair become one
// character. Any other surrogate, half a character, becomes a byte that is no UTF-8.
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
		if utf16.IsSurrogate(r) {
			text = append(text, 0xFF)
		} else {
			text = utf8.AppendRune(text, r)
		}
		raw = raw[next+size:]
	}
	return append(text, raw...)
}

// unescape decodes the escape at the start of raw, or the two that form a surrogate pair.
func unescape(raw []byte) (r rune, size int) {
	if raw[1] != 'u' {
		return rune(escaped[strings.IndexByte(escapes, raw[1])]), 2
	}
	r = hexRune(raw[2:6])
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(raw[8:12])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return r, 6
}

// hexRune decodes four hexadecimal digits. It returns -1 for anything else.
func hexRune(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
