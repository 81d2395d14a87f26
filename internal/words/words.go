// Package words writes numbers, durations and errors as people write them.
package words

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Count writes a number and the thing counted: "1 write", "3,021 entries".
func Count(n int, what string) string { return Number(int64(n)) + " " + noun(n, what) }

// Plural writes a number without commas and the thing counted, as commands print them: "3021 entries".
func Plural(n int, what string) string { return strconv.Itoa(n) + " " + noun(n, what) }

// noun returns what for one, and else its plural: with an s, or with ies in place of a y after an r.
func noun(n int, what string) string {
	if stem, ok := strings.CutSuffix(what, "ry"); ok {
		return ByNumber(n, what, stem+"ries")
	}
	return ByNumber(n, what, what+"s")
}

// ByNumber returns one if n is 1, and else more.
func ByNumber(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
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

type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// Plain returns an error that reads text and unwraps to err.
func Plain(text string, err error) error { return &plainError{text, err} }

// Unusable returns an error that says in plain words why a file or directory cannot be used. It returns
// any error but an [fs.PathError] as it is.
func Unusable(err error) error {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	text := ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		text = fmt.Sprintf("permission denied at %s: give it to the user that botwired runs as (%d), or choose another place", at.Path, os.Getuid())
	case errors.Is(err, syscall.ENOTDIR):
		text = fmt.Sprintf("%s is not a directory: choose another place", at.Path)
	case errors.Is(err, syscall.EROFS):
		text = fmt.Sprintf("%s is on a file system that is read-only: choose another place", at.Path)
	default:
		text = fmt.Sprintf("%s cannot be used: %s", at.Path, Reason(at.Err))
	}
	return Plain(text, err)
}

// Reason returns the system's words for an error, without the names of the failed calls.
func Reason(err error) string {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	return err.Error()
}
