package wire

import "bytes"

const (
	// maxDepth bounds how deep a body may nest, and with it the stack that reading one takes. BotWire
	// stops where its interpreter does, at 963 levels or more, depending on its version.
	maxDepth = 1000
	// maxDigits bounds an integer; BotWire's interpreter will not convert a longer one.
	maxDigits = 4300
)

// syntaxError is text that is not JSON, in the words of BotWire's parser; pos counts bytes.
type syntaxError struct {
	msg string
	pos int
}

func (e *syntaxError) Error() string { return e.msg }

// unreadable is JSON that BotWire's parser gives up on: nested too deep, or an integer too long.
type unreadable struct{}

func (unreadable) Error() string { return "there was an error parsing the body" }

type span struct{ start, end int }

// document is a JSON text whose syntax has been checked. value is the last member of the outermost
// object that is called "value", when found is true.
type document struct {
	text  []byte
	root  span
	value span
	found bool
}

// scan checks text in one pass, without building anything. The dialect is that of BotWire's parser:
// JSON with NaN, Infinity and -Infinity, and with control characters in strings refused.
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
	member span // of the outermost object, the last "value"
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
		return unreadable{}
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
	if s.depth == 1 && isValueName(s.text[name.start:name.end]) {
		s.member, s.found = span{start, s.pos}, true
	}
	return nil
}

func isValueName(quoted []byte) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted) == `"value"`
	}
	return string(unquote(quoted)) == "value"
}

// number takes the longest number that starts here. The caller refuses what follows if it must not.
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
		return unreadable{}
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
