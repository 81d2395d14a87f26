// Package term writes for people at a terminal: tables, facts, relative times, screens that are
// redrawn, and questions. For other readers it writes plain text, with times as in JSON.
package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// Terminal holds a command's streams, and what the command knows about their other ends.
type Terminal struct {
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	IsTerminal     func(stream any) bool
	Size           func(stream any) (columns, rows int)
	Ticks          func() (tick <-chan time.Time, stop func()) // ticks each second, to redraw
	Now            func() time.Time
}

// Own returns the terminal of this process.
func Own(stdout, stderr io.Writer) Terminal {
	return Terminal{
		Environ: os.Environ(), Stdin: os.Stdin, Stdout: stdout, Stderr: stderr,
		IsTerminal: IsTerminal, Size: SizeOf, Ticks: EverySecond, Now: time.Now,
	}
}

// Exit ends a command with its own exit code. Err may be nil.
type Exit struct {
	Code int
	Err  error
}

// Error returns Err's text, or names the code.
func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprint("exit code ", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Exit) Unwrap() error { return e.Err }

// Say writes a line for the user.
func (t *Terminal) Say(line string) { fmt.Fprint(t.Stderr, line) }

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// EverySecond ticks each second.
func EverySecond() (<-chan time.Time, func()) {
	t := time.NewTicker(time.Second)
	return t.C, t.Stop
}

const otherColumns = 80

// SizeOf returns a terminal's size in characters, or 80 by 24 for any other stream.
func SizeOf(stream any) (columns, rows int) {
	if f, ok := stream.(*os.File); ok {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return otherColumns, 24
}

// ValueIn returns the value of an environment variable; the last one counts.
func ValueIn(environ []string, name string) string {
	for _, each := range slices.Backward(environ) {
		if found, value, _ := strings.Cut(each, "="); found == name {
			return value
		}
	}
	return ""
}

// Palette colours text. The zero Palette leaves it unchanged.
type Palette bool

// PaletteOf returns colours for a terminal that can show them, unless NO_COLOR is set (no-color.org).
func (t *Terminal) PaletteOf(stream any) Palette {
	return Palette(t.IsTerminal(stream) && ValueIn(t.Environ, "NO_COLOR") == "" && ValueIn(t.Environ, "TERM") != "dumb")
}

// Bold marks the most important text.
func (p Palette) Bold(s string) string { return p.paint("1", s) }

// Dim marks the least important text.
func (p Palette) Dim(s string) string { return p.paint("2", s) }

// Red marks errors.
func (p Palette) Red(s string) string { return p.paint("31", s) }

// Green marks good states.
func (p Palette) Green(s string) string { return p.paint("32", s) }

// Yellow marks warnings.
func (p Palette) Yellow(s string) string { return p.paint("33", s) }

func (p Palette) paint(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// WrapParagraphs wraps each paragraph to a width, and keeps paragraphs with indented lines. The result
// ends with a newline.
func WrapParagraphs(text string, width int) string {
	var out []string
	for _, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if !strings.Contains("\n"+paragraph, "\n ") { // it is running text
			paragraph = Wrap(paragraph, width)
		}
		out = append(out, paragraph)
	}
	return strings.Join(out, "\n\n") + "\n"
}

// Wrap breaks a text into lines of at most width characters, between words.
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

// ErrDeclined is the error of a command whose question was not answered with yes.
var ErrDeclined = errors.New("nothing is changed")

// longestReply limits how much of a reply is read, in bytes.
const longestReply = 1000

// Confirm asks a question on the terminal. It returns ErrDeclined unless the reply is y or yes.
func (t *Terminal) Confirm(ctx context.Context, question string) error {
	fmt.Fprint(t.Stderr, Printable(question)+" [y/N] ")
	replied := make(chan string, 1)
	go func() { // without a reply, the read blocks until the process ends
		reply, _ := bufio.NewReader(io.LimitReader(t.Stdin, longestReply)).ReadString('\n')
		replied <- reply
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(t.Stderr)
		return ctx.Err()
	case reply := <-replied:
		if !strings.HasSuffix(reply, "\n") {
			fmt.Fprintln(t.Stderr)
		}
		if reply = strings.ToLower(strings.TrimSpace(reply)); reply != "y" && reply != "yes" {
			return ErrDeclined
		}
		return nil
	}
}
