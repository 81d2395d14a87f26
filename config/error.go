package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Error says why Load rejects a configuration. Its text is one line with the setting's name, the value,
// its source and what was expected. No field holds a secret: secrets are already replaced by
// "(redacted)".
type Error struct {
	Setting  string // as the user wrote it, if there is no such setting; "" if the error is not about a setting
	Item     string // the wrong part of the value, such as a header's name; or ""
	Value    string // quoted, or ""
	Source   Source
	Expected string // completes "expected …"

	part *node // in a codec's error: the wrong part of the value, or nil for the whole value
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
		b.WriteString(e.Source.String())
	}
	b.WriteString(": expected " + e.Expected)
	return oneLine(b.String())
}

const redacted = "(redacted)"

// maxShown limits a rejected value in a message, in bytes: a whole file given by mistake must not fill
// a log.
const maxShown = 200

// errUnexpected is a codec's error about the whole value, with the setting's usual expectation. Any
// other error of a codec completes "expected …", or is an *Error about a part of the value.
var errUnexpected = errors.New("")

func expect(format string, args ...any) error { return fmt.Errorf(format, args...) }

// wrong returns the error about a part of a value. item names the part, and line is its line in the
// file.
func wrong(item string, line int, part node, expected string) *Error {
	return &Error{Item: item, Source: Source{Line: line}, Expected: expected, part: &part}
}

func explain(s Setting, v node, from Source, err error) (faults []*Error) {
	parts := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		parts = joined.Unwrap()
	}
	for _, part := range parts {
		e, ok := errors.AsType[*Error](part)
		if !ok {
			e = &Error{Expected: part.Error()}
		}
		at := from
		if from.Layer == FromFile && e.Source.Line != 0 {
			at.Line = e.Source.Line
		}
		faults = append(faults, &Error{
			Setting: s.Name, Item: e.Item, Value: s.shown(*cmp.Or(e.part, &v)), Source: at, Expected: cmp.Or(e.Expected, s.codec.expected),
		})
	}
	return faults
}

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

// oneLine replaces line breaks and control characters by spaces.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}
