package main

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// otherColumns is the width for a stream that is no terminal.
const otherColumns = 80

// terminalSize is the size of a terminal in characters, and that of a usual one for any other
// stream.
func terminalSize(stream any) (columns, rows int) {
	if f, ok := stream.(*os.File); ok {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return otherColumns, 24
}

// valueIn returns the value of a variable of an environment; the last one counts.
func valueIn(environ []string, name string) string {
	for _, each := range slices.Backward(environ) {
		if found, value, _ := strings.Cut(each, "="); found == name {
			return value
		}
	}
	return ""
}

// palette colours text. The zero palette leaves it as it is.
type palette bool

// palette colours what goes to a terminal that can, unless the environment does not want it
// (no-color.org).
func (p *process) palette(stream any) palette {
	return palette(p.isTerminal(stream) && valueIn(p.environ, "NO_COLOR") == "" && valueIn(p.environ, "TERM") != "dumb")
}

func (p palette) bold(s string) string   { return p.paint("1", s) }
func (p palette) dim(s string) string    { return p.paint("2", s) }
func (p palette) red(s string) string    { return p.paint("31", s) }
func (p palette) green(s string) string  { return p.paint("32", s) }
func (p palette) yellow(s string) string { return p.paint("33", s) }

func (p palette) paint(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// wrapParagraphs wraps each paragraph at a width, and keeps lines that are indented. It ends with a line's end.
func wrapParagraphs(text string, width int) string {
	var out []string
	for _, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if !isIndented(paragraph) {
			paragraph = wrap(paragraph, width)
		}
		out = append(out, paragraph)
	}
	return strings.Join(out, "\n\n") + "\n"
}

// isIndented reports whether a line of a paragraph is indented: its lines are then no running text.
func isIndented(paragraph string) bool {
	return strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ")
}

// wrap breaks a text into lines of a width at most, where its words allow that.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case column == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
