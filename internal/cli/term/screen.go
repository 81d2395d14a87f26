package term

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/botwired/botwired/internal/words"
)

// Screen is a terminal for people, with its width. Other writers get plain text: times as in JSON, and
// lines of any length.
type Screen struct {
	io.Writer
	Palette
	Columns int
	Now     func() time.Time
}

// Screen returns stdout, as a *Screen if it is a terminal.
func (t *Terminal) Screen() io.Writer {
	if !t.IsTerminal(t.Stdout) {
		return t.Stdout
	}
	columns, _ := t.Size(t.Stdout)
	return &Screen{t.Stdout, t.PaletteOf(t.Stdout), columns, t.Now}
}

// Moment formats a time: relative on a screen, plain elsewhere.
func Moment(w io.Writer, at time.Time) string {
	if s, ok := w.(*Screen); ok {
		return spokenTime(at, s.Now())
	}
	return Plain(at)
}

// Since formats the time when something began: "for 3 minutes" on a screen, elsewhere "since" and the
// time.
func Since(w io.Writer, at time.Time) string { return distance(w, at, "since ", "for ", "") }

// Until formats the time when something will end.
func Until(w io.Writer, at time.Time) string { return distance(w, at, "until ", "for ", " more") }

// Ahead formats a time at which something will happen.
func Ahead(w io.Writer, at time.Time) string { return distance(w, at, "at ", "in ", "") }

// Ago formats a time at which something happened.
func Ago(w io.Writer, at time.Time) string { return distance(w, at, "at ", "", " ago") }

// distance returns word and a time, or on a screen how far it is from now.
func distance(w io.Writer, at time.Time, word, before, after string) string {
	s, ok := w.(*Screen)
	if !ok {
		return word + Plain(at)
	}
	if d := s.Now().Sub(at).Abs(); d <= spokenDays {
		return before + spoken(d) + after
	}
	return word + spokenTime(at, s.Now())
}

// spokenTime formats a time relative to now, or beyond spokenDays as a date in this machine's zone.
func spokenTime(at, now time.Time) string {
	d := now.Sub(at)
	switch {
	case d > spokenDays || d < -spokenDays:
		return at.In(now.Location()).Format("2006-01-02 15:04")
	case d >= 0 && d < time.Second, d < 0 && d > -time.Second:
		return "just now"
	case d < 0:
		return "in " + spoken(-d)
	}
	return spoken(d) + " ago"
}

// spokenDays is the largest distance for which a time is shown as relative.
const spokenDays = 7 * 24 * time.Hour

// spoken formats a duration, rounded, in the largest unit that gives at least 2, or exactly 1.
func spoken(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if d.Round(unit.of) >= 2*unit.of || d >= unit.of && d.Round(unit.of) == unit.of && d.Round(time.Minute)%unit.of == 0 {
			return words.Plural(int(d.Round(unit.of)/unit.of), unit.name)
		}
	}
	return words.Plural(int(d.Round(time.Second)/time.Second), "second")
}

// Ellipsis marks where text was cut.
const Ellipsis = "…"

// least is the smallest width to which a column is cut.
const least = 14

// fitted cuts the cells of the widest columns until the table fits a width.
func fitted(rows [][]string, width int) [][]string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, n := range widths {
		total += n
	}
	for total > width {
		widest := 0
		for i, n := range widths {
			if n > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= least {
			break
		}
		widths[widest]--
		total--
	}
	out := make([][]string, len(rows))
	for r, row := range rows {
		for i, cell := range row {
			out[r] = append(out[r], cut(cell, widths[i]))
		}
	}
	return out
}

// cut shortens a text to a width. It keeps the end of names, because names often differ there.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width || width < 3 {
		return text
	}
	tail := (width - 1) / 3
	if strings.Contains(text, " ") {
		tail = 0 // a sentence
	}
	return string(runes[:width-1-tail]) + Ellipsis + string(runes[len(runes)-tail:])
}

func (s *Screen) printFitted(columns []string, rows [][]string) error {
	var b strings.Builder
	if err := Rows(&b, fitted(shown(append([][]string{columns}, rows...)), s.Columns)); err != nil {
		return err
	}
	header, rest, _ := strings.Cut(b.String(), "\n")
	_, err := fmt.Fprintf(s, "%s\n%s", s.Bold(header), rest)
	return err
}

// printWrapped prints facts on a screen. A long value continues below its beginning.
func (s *Screen) printWrapped(facts [][2]string) error {
	longest := 0
	for _, fact := range facts {
		longest = max(longest, len(fact[0]))
	}
	indent := "\n" + strings.Repeat(" ", longest+2)
	for _, fact := range facts {
		name := s.Dim(fact[0]) + strings.Repeat(" ", longest-len(fact[0]))
		value := strings.ReplaceAll(Wrap(Printable(fact[1]), max(s.Columns-longest-2, least)), "\n", indent)
		if _, err := fmt.Fprintf(s, "%s  %s\n", name, value); err != nil {
			return err
		}
	}
	return nil
}
