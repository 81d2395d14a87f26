package term

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Table prints aligned rows under column names. An empty cell becomes a dash.
func Table(w io.Writer, columns []string, rows [][]string) error {
	if s, ok := w.(*Screen); ok {
		return s.printFitted(columns, rows)
	}
	return Rows(w, append([][]string{columns}, rows...))
}

// Rows prints aligned rows.
func Rows(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range shown(rows) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

func shown(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			out[i] = append(out[i], Printable(cmp.Or(cell, "-")))
		}
	}
	return out
}

// Facts prints aligned names and values.
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

// JSON prints botwired's answer: unchanged, or on a terminal without characters that control it.
func JSON(w io.Writer, body []byte) error {
	if _, screen := w.(*Screen); screen || IsTerminal(w) {
		body = HarmlessJSON(body)
	}
	_, err := fmt.Fprintf(w, "%s\n", bytes.TrimRight(body, "\n"))
	return err
}

// EncodeJSON prints v as [JSON] does.
func EncodeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return JSON(w, b.Bytes())
}

// Unix converts Unix seconds to a time.
func Unix(seconds float64) time.Time { return time.UnixMilli(int64(seconds * 1000)) }

// Plain formats a time as RFC 3339, to the second and in UTC, so that scripts can compare it.
func Plain(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Instant formats a time as Plain does, but with milliseconds.
func Instant(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Age formats seconds as people write them: 250ms, 3m, 1h20m5s.
func Age(seconds float64) string {
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

// Size formats bytes with a unit and one decimal.
func Size(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + "B"
	}
	value, unit := float64(n), -1
	for value >= 1<<10 && unit < 5 {
		value /= 1 << 10
		unit++
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + string("KMGTPE"[unit]) + "iB"
}
