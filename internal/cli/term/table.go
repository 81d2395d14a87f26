package term

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Table aligns the rows under the names of the columns. An empty cell becomes a dash.
func Table(w io.Writer, columns []string, rows [][]string) error {
	if s, ok := w.(*Screen); ok {
		return s.printFitted(columns, rows)
	}
	return Rows(w, append([][]string{columns}, rows...))
}

// Rows aligns rows.
func Rows(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			if cell == "" {
				cell = "-"
			}
			fmt.Fprint(tw, Printable(cell))
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

// Facts aligns names and values.
func Facts(w io.Writer, facts [][2]string) error {
	if s, ok := w.(*Screen); ok {
		return s.printWrapped(facts)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, fact := range facts {
		fmt.Fprintf(tw, "%s\t%s\n", fact[0], Printable(fact[1]))
	}
	return tw.Flush()
}

// JSON prints botwired's answer as it came.
func JSON(w io.Writer, body []byte) error {
	_, err := fmt.Fprintf(w, "%s\n", strings.TrimRight(string(body), "\n"))
	return err
}

// EncodeJSON prints a document.
func EncodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Cell is a JSON scalar as a table shows it. Null and an absent field are empty.
type Cell string

// UnmarshalJSON takes any value: a newer daemon may say more than this program knows.
func (c *Cell) UnmarshalJSON(data []byte) error {
	var s string
	switch {
	case string(data) == "null":
		*c = ""
	case json.Unmarshal(data, &s) == nil:
		*c = Cell(s)
	default:
		*c = Cell(data)
	}
	return nil
}

// Moment shows a time given in Unix seconds or as RFC 3339 to the second and in UTC, and
// any other text as it is.
func (c Cell) Moment() string { return c.at(time.RFC3339) }

// Instant is moment with milliseconds.
func (c Cell) Instant() string { return c.at("2006-01-02T15:04:05.000Z07:00") }

func (c Cell) at(layout string) string {
	if t, ok := c.Time(); ok {
		return t.UTC().Format(layout)
	}
	return string(c)
}

// Time reads a time that is given in Unix seconds or as RFC 3339.
func (c Cell) Time() (at time.Time, ok bool) {
	if t, err := time.Parse(time.RFC3339, string(c)); err == nil {
		return t, true
	}
	seconds, err := strconv.ParseFloat(string(c), 64)
	if err != nil || math.IsNaN(seconds) || math.Abs(seconds) > 1e11 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(seconds * 1000)), true
}

// Age shows a number of seconds as people write it: 250ms, 3m, 1h20m5s.
func (c Cell) Age() string {
	seconds, err := strconv.ParseFloat(string(c), 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > 1e9 {
		return string(c)
	}
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// Size shows a number of bytes with a unit, to about three digits.
func (c Cell) Size() string {
	n, err := strconv.ParseInt(string(c), 10, 64)
	if err != nil || n < 0 {
		return string(c)
	}
	if n < 1<<10 {
		return string(c) + "B"
	}
	value, unit := float64(n), -1
	for value >= 1<<10 && unit < 5 {
		value /= 1 << 10
		unit++
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + string("KMGTPE"[unit]) + "iB"
}

// Number is 0 for what is none.
func (c Cell) Number() int {
	n, err := strconv.Atoi(string(c))
	if err != nil {
		return 0
	}
	return n
}

// Or returns the text, or other if there is none.
func (c Cell) Or(other string) string {
	if c == "" {
		return other
	}
	return string(c)
}
