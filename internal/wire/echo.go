package wire

import (
	"bytes"
	"strconv"
)

// appendEcho appends a scanned piece of a body as BotWire echoes it in the "input" of an error: parsed by
// Python and printed again. A repeated member keeps its first place and its last value. Members whose names
// begin with "_sa" are dropped. 1e5 becomes 100000.0, and -0 becomes 0.
func appendEcho(dst, text []byte, piece span) []byte {
	e := echo{scanner: scanner{text: text, pos: piece.start}, dst: dst}
	e.value()
	return e.dst
}

// echo prints while it scans. Scanning cannot fail, because the text was scanned before.
type echo struct {
	scanner
	dst []byte
}

func (e *echo) value() {
	start := e.pos
	switch e.text[start] {
	case '{':
		e.object()
	case '[':
		e.array()
	default:
		_ = e.scanner.value()
		e.scalar(e.text[start:e.pos])
	}
}

func (e *echo) scalar(token []byte) {
	switch c := token[0]; {
	case c == '"':
		e.dst = appendString(e.dst, unquote(token))
	case c == 't', c == 'f':
		e.dst = append(e.dst, token...)
	case c == 'n', c == 'N', c == 'I', bytes.HasPrefix(token, []byte("-I")):
		e.dst = append(e.dst, "null"...)
	case bytes.ContainsAny(token, ".eE"):
		f, _ := strconv.ParseFloat(string(token), 64) // a number out of range becomes an infinity, as in Python
		e.dst = appendFloat(e.dst, f)
	case string(token) == "-0":
		e.dst = append(e.dst, '0')
	default:
		e.dst = append(e.dst, token...)
	}
}

func (e *echo) array() {
	e.dst = append(e.dst, '[')
	for first := true; e.next(']'); first = false {
		if !first {
			e.dst = append(e.dst, ',')
		}
		e.value()
	}
	e.dst = append(e.dst, ']')
}

// next moves to the next element of the open array or object, or past its closing bracket.
func (e *echo) next(closing byte) bool {
	if e.space(); !e.at(closing) {
		e.pos++ // the opening bracket or a comma
		e.space()
	}
	if e.at(closing) {
		e.pos++
		return false
	}
	return true
}

// member is a printed member of an object, and its place in dst.
type member struct {
	name []byte
	at   span
}

func (e *echo) object() {
	e.dst = append(e.dst, '{')
	open := len(e.dst)
	var members []member
	place, moved := make(map[string]int), false
	for e.next('}') {
		m, kept := e.member(len(members) == 0)
		if !kept {
			continue
		}
		if i, repeated := place[string(m.name)]; repeated {
			members[i], moved = m, true
			continue
		}
		place[string(m.name)] = len(members)
		members = append(members, m)
	}
	if moved {
		e.reorder(open, members)
	}
	e.dst = append(e.dst, '}')
}

// member prints the member that starts here, unless BotWire drops it.
func (e *echo) member(first bool) (m member, kept bool) {
	before := len(e.dst)
	if !first {
		e.dst = append(e.dst, ',')
	}
	start := e.pos
	_ = e.string()
	m.name = unquote(e.text[start:e.pos])
	e.space()
	e.pos++ // the colon
	e.space()
	m.at.start = len(e.dst)
	e.dst = append(appendString(e.dst, m.name), ':')
	e.value()
	m.at.end = len(e.dst)
	if bytes.HasPrefix(m.name, []byte("_sa")) {
		e.dst = e.dst[:before]
		return member{}, false
	}
	return m, true
}

// reorder prints the object whose members begin at open again, without the values that later ones replaced.
func (e *echo) reorder(open int, members []member) {
	printed := bytes.Clone(e.dst[open:])
	e.dst = e.dst[:open]
	for i, m := range members {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		e.dst = append(e.dst, printed[m.at.start-open:m.at.end-open]...)
	}
}
