package term

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// Terminal has a command's streams, and what the command knows of the person or the program at their other ends.
type Terminal struct {
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	IsTerminal     func(stream any) bool
	Size           func(stream any) (columns, rows int)
	Ticks          func() (tick <-chan time.Time, stop func()) // of what is shown anew each second
	Now            func() time.Time
}

// Own returns the terminal of this process.
func Own(stdout, stderr io.Writer) Terminal {
	return Terminal{
		Environ: os.Environ(), Stdin: os.Stdin, Stdout: stdout, Stderr: stderr,
		IsTerminal: IsTerminal, Size: SizeOf, Ticks: EverySecond, Now: time.Now,
	}
}

// Exit is the end of a command with an exit code of its own. Err may be nil.
type Exit struct {
	Code int
	Err  error
}

// Error says why, or has the code.
func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprint("exit code ", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Exit) Unwrap() error { return e.Err }

// Say writes a line for the person.
func (t *Terminal) Say(line string) { fmt.Fprint(t.Stderr, line) }

// IsTerminal reports whether a stream is a character device other than the null device: in
// practice a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// EverySecond ticks each second.
func EverySecond() (<-chan time.Time, func()) {
	t := time.NewTicker(time.Second)
	return t.C, t.Stop
}

// otherColumns is the width for a stream that is no terminal.
const otherColumns = 80

// SizeOf returns the size of a terminal in characters, and a usual size for any other stream.
func SizeOf(stream any) (columns, rows int) {
	if f, ok := stream.(*os.File); ok {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return otherColumns, 24
}

// ValueIn returns the value of a variable of an environment; the last one counts.
func ValueIn(environ []string, name string) string {
	for _, each := range slices.Backward(environ) {
		if found, value, _ := strings.Cut(each, "="); found == name {
			return value
		}
	}
	return ""
}

// Palette colours text. The zero Palette leaves it as it is.
type Palette bool

// PaletteOf returns colours for a terminal that can show them, unless the environment does not want them
// (no-color.org).
func (t *Terminal) PaletteOf(stream any) Palette {
	return Palette(t.IsTerminal(stream) && ValueIn(t.Environ, "NO_COLOR") == "" && ValueIn(t.Environ, "TERM") != "dumb")
}

// Bold is for what a reader looks for first.
func (p Palette) Bold(s string) string { return p.paint("1", s) }

// Dim is for what a reader may pass over.
func (p Palette) Dim(s string) string { return p.paint("2", s) }

// Red is for what is wrong.
func (p Palette) Red(s string) string { return p.paint("31", s) }

// Green is for what is well.
func (p Palette) Green(s string) string { return p.paint("32", s) }

// Yellow is for what needs a look.
func (p Palette) Yellow(s string) string { return p.paint("33", s) }

func (p Palette) paint(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// WrapParagraphs wraps each paragraph at a width, and keeps lines that are indented. It ends with a line's end.
func WrapParagraphs(text string, width int) string {
	var out []string
	for _, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if !isIndented(paragraph) {
			paragraph = Wrap(paragraph, width)
		}
		out = append(out, paragraph)
	}
	return strings.Join(out, "\n\n") + "\n"
}

// isIndented reports whether a line of a paragraph is indented: its lines are then no running text.
func isIndented(paragraph string) bool {
	return strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ")
}

// Wrap breaks a text into lines of a width at most, where its words allow that.
func Wrap(text string, width int) string {
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
