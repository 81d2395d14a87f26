package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/botwired/botwired/config"
)

// printTable aligns the rows under the names of the columns. An empty cell becomes a dash.
func printTable(w io.Writer, columns []string, rows [][]string) error {
	if s, ok := w.(*screen); ok {
		return s.printFitted(columns, rows)
	}
	return printRows(w, append([][]string{columns}, rows...))
}

// printRows aligns rows.
func printRows(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			if cell == "" {
				cell = "-"
			}
			fmt.Fprint(tw, printable(cell))
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

// printFacts aligns names and values.
func printFacts(w io.Writer, facts [][2]string) error {
	if s, ok := w.(*screen); ok {
		return s.printWrapped(facts)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, fact := range facts {
		fmt.Fprintf(tw, "%s\t%s\n", fact[0], printable(fact[1]))
	}
	return tw.Flush()
}

// printJSON prints botwired's answer as it came.
func printJSON(w io.Writer, body []byte) error {
	_, err := fmt.Fprintf(w, "%s\n", strings.TrimRight(string(body), "\n"))
	return err
}

func encodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// cell is a JSON scalar as a table shows it. Null and an absent field are empty.
type cell string

// UnmarshalJSON takes any value: a newer daemon may say more than this program knows.
func (c *cell) UnmarshalJSON(data []byte) error {
	var s string
	switch {
	case string(data) == "null":
		*c = ""
	case json.Unmarshal(data, &s) == nil:
		*c = cell(s)
	default:
		*c = cell(data)
	}
	return nil
}

// moment shows a time given in Unix seconds or as RFC 3339 to the second and in UTC, and
// any other text as it is.
func (c cell) moment() string { return c.at(time.RFC3339) }

// instant is moment with milliseconds.
func (c cell) instant() string { return c.at("2006-01-02T15:04:05.000Z07:00") }

func (c cell) at(layout string) string {
	if t, ok := c.time(); ok {
		return t.UTC().Format(layout)
	}
	return string(c)
}

// time reads a time that is given in Unix seconds or as RFC 3339.
func (c cell) time() (at time.Time, ok bool) {
	if t, err := time.Parse(time.RFC3339, string(c)); err == nil {
		return t, true
	}
	seconds, err := strconv.ParseFloat(string(c), 64)
	if err != nil || math.IsNaN(seconds) || math.Abs(seconds) > 1e11 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(seconds * 1000)), true
}

// age shows a number of seconds as people write it: 250ms, 3m, 1h20m5s.
func (c cell) age() string {
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

// size shows a number of bytes with a unit, to about three digits.
func (c cell) size() string {
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

// number is 0 for what is none.
func (c cell) number() int {
	n, err := strconv.Atoi(string(c))
	if err != nil {
		return 0
	}
	return n
}

// or returns the text, or other if there is none.
func (c cell) or(other string) string {
	if c == "" {
		return other
	}
	return string(c)
}

// maxTimeout is the longest that the daemon lets a flush wait.
const maxTimeout = time.Hour

// parseTime reads a flag's duration, or a number of seconds as the HTTP surface takes it.
func parseTime(flag, s string, most time.Duration) (time.Duration, error) {
	d, err := config.ParseDuration(s)
	if err != nil && strings.Trim(s, ".0123456789") == "" {
		d, err = config.ParseDuration(s + "s")
	}
	if err != nil || d <= 0 || d > most {
		return 0, usagef("--%s = %q: expected a duration above zero, at most %s, such as 30s, or a number of seconds",
			flag, s, config.FormatDuration(most))
	}
	return d, nil
}
