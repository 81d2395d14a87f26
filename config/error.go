package config

import (
	"errors"
	"fmt"
	"strings"
)

// Error says why Load refuses a configuration. Its text is one line with the setting's
// name, the value, its source and what was expected. No field holds a secret: each is
// already replaced by "(redacted)".
type Error struct {
	Setting  string // as the user wrote it, if there is no such setting; "" if the error is about none
	Item     string // the wrong part of the value, such as a header's name; or ""
	Value    string // quoted; "" if there is none to show
	Source   string // "file /path:3", "environment BOTWIRED_LISTEN", "flag --listen" or "default"
	Line     int    // in the file, from 1; 0 outside files
	Expected string // completes "expected …"; of a setting that is gone, says what to do
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Setting)
	if e.Item != "" {
		b.WriteString(": " + e.Item)
	}
	if e.Value != "" {
		b.WriteString(" = " + e.Value)
	}
	if b.Len() > 0 {
		fmt.Fprintf(&b, " (%s)", e.Source)
	} else {
		b.WriteString(e.Source)
	}
	b.WriteString(": ")
	if !strings.HasPrefix(e.Expected, isGone) {
		b.WriteString("expected ")
	}
	b.WriteString(e.Expected)
	return oneLine(b.String())
}

const redacted = "(redacted)"

// maxShown bounds a rejected value in a message, in bytes: a whole file given by mistake
// must not fill a log.
const maxShown = 200

// problem is a codec's error. The loader, which knows the setting and the source, makes
// an Error of it.
type problem struct {
	item     string // "" for the value as a whole
	value    *node  // the wrong part, if it is not the whole value
	line     int    // in the file, if the whole value begins on another
	expected string // "" for the setting's usual expectation
}

func (p *problem) Error() string { return p.expected }

// expect is the problem of a whole value, in words of its own.
func expect(format string, args ...any) error {
	return &problem{expected: fmt.Sprintf(format, args...)}
}

// unexpected is the problem of a whole value, in the setting's usual words.
func unexpected() error { return &problem{} }

// problems returns what a codec's error is made of: one problem, or several joined.
func problems(err error) []*problem {
	parts := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		parts = joined.Unwrap()
	}
	out := make([]*problem, len(parts))
	for i, part := range parts {
		if !errors.As(part, &out[i]) {
			out[i] = &problem{expected: part.Error()}
		}
	}
	return out
}

// explain makes an Error of a problem with the value v of s.
func explain(s Setting, v node, from Source, p *problem) *Error {
	if p.value != nil {
		v = *p.value
	}
	if p.line != 0 {
		from.Line = p.line
	}
	if p.expected == "" {
		p.expected = s.codec.expected
	}
	return &Error{Setting: s.Name, Item: p.item, Value: s.shown(v), Source: from.String(), Line: from.Line, Expected: p.expected}
}

// shown returns a rejected value as an error may show it.
func (s Setting) shown(v node) string {
	if s.Secret {
		return redacted
	}
	if s.codec.show != nil && v.kind == isText {
		v.text = s.codec.show(v.text)
	}
	text := v.String()
	if s.codec.show != nil && v.kind != isText {
		text = s.codec.show(text)
	}
	return shorten(text)
}

func shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}

// oneLine keeps a message on one line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}
