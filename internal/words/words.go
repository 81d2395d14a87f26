// Package words writes numbers, durations and errors as people write them.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Count writes a number and the thing counted: "1 write", "3,021 entries".
func Count(n int, what string) string { return Number(int64(n)) + " " + noun(n, what) }

// Plural writes a number without commas and the thing counted, as commands print them: "3021 entries".
func Plural(n int, what string) string { return strconv.Itoa(n) + " " + noun(n, what) }

// noun returns what for one, and else its plural: with an s, or with ies in place of a y after an r.
func noun(n int, what string) string {
	if n == 1 {
		return what
	}
	if stem, ok := strings.CutSuffix(what, "ry"); ok {
		return stem + "ries"
	}
	return what + "s"
}

// Number writes a number with commas between thousands.
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(text, "-")
	sign := text[:len(text)-len(digits)]
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Duration writes a duration in its one or two largest units: "1.2 s", "3 min", "2 h 5 min", "3 d 4 h".
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(0, d.Milliseconds()))
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < day:
		return two(d, time.Hour, "h", time.Minute, "min")
	}
	return two(d, day, "d", time.Hour, "h")
}

func two(d, unit time.Duration, name string, part time.Duration, partName string) string {
	text := fmt.Sprintf("%d %s", d/unit, name)
	if rest := d % unit / part; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, partName)
	}
	return text
}
