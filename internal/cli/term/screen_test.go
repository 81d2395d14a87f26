package term

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSpokenTimes(t *testing.T) {
	now := time.Date(2026, 11, 22, 21, 0, 0, 0, time.UTC)
	for before, want := range map[time.Duration]string{
		0: "just now", 400 * time.Millisecond: "just now", 1400 * time.Millisecond: "1 second ago",
		59 * time.Second: "59 seconds ago", time.Minute: "1 minute ago", 90 * time.Second: "2 minutes ago", 59 * time.Minute: "59 minutes ago",
		time.Hour: "1 hour ago", 3 * time.Hour: "3 hours ago", 26 * time.Hour: "26 hours ago", 3 * 24 * time.Hour: "3 days ago",
		8 * 24 * time.Hour: "2026-11-14 21:00", -2 * time.Hour: "in 2 hours", -time.Minute: "in 1 minute", -30 * 24 * time.Hour: "2026-12-22 21:00",
	} {
		if got := spokenTime(now.Add(-before), now); got != want {
			t.Errorf("%s before: %q, want %q", before, got, want)
		}
	}
}

// newScreen returns a screen with a width and a fixed time.
func newScreen(columns int, now time.Time) (*Screen, *bytes.Buffer) {
	var b bytes.Buffer
	return &Screen{&b, false, columns, func() time.Time { return now }}, &b
}

// A table fits its screen, and shows where it was cut. Elsewhere, nothing is cut.
func TestTablesFitTheScreen(t *testing.T) {
	columns := []string{"NAMESPACE", "PENDING", "WAITS"}
	rows := [][]string{
		{strings.Repeat("agent-", 10) + "0017", "3", "throttled: upstream answered 429 to the last write of the namespace"},
		{"n\x1b[31m", "1", ""},
	}
	s, b := newScreen(60, time.Time{})
	if err := Table(s, columns, rows); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 60 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"…", "0017", "throttled: ", "n [31m"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b)
		}
	}
	var plain bytes.Buffer
	if err := Table(&plain, columns, rows); err != nil || !strings.Contains(plain.String(), rows[0][0]) || !strings.Contains(plain.String(), rows[0][2]) {
		t.Errorf("elsewhere it prints %s", plain.String())
	}
}

func TestTimesOnAScreenAndElsewhere(t *testing.T) {
	s, b := newScreen(80, time.Date(2026, 11, 22, 21, 0, 0, 0, time.UTC))
	at, later := time.Date(2026, 11, 22, 20, 57, 0, 123e6, time.UTC), time.Date(2026, 11, 22, 21, 10, 0, 0, time.UTC)
	got := []string{Moment(s, at), Moment(b, at), Since(s, at), Since(b, at), Ago(s, at), Until(s, later)}
	want := []string{"3 minutes ago", "2026-11-22T20:57:00Z", "for 3 minutes", "since 2026-11-22T20:57:00Z", "3 minutes ago", "for 10 minutes more"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A terminal shows colours unless the environment forbids it.
func TestColours(t *testing.T) {
	for _, test := range []struct {
		environ  []string
		terminal bool
		want     Palette
	}{
		{nil, true, true}, {nil, false, false}, {[]string{"NO_COLOR=1"}, true, false}, {[]string{"NO_COLOR="}, true, true},
		{[]string{"TERM=dumb"}, true, false}, {[]string{"TERM=xterm-256color"}, true, true},
	} {
		p := &Terminal{Environ: test.environ, IsTerminal: func(any) bool { return test.terminal }}
		if got := p.PaletteOf(nil); got != test.want {
			t.Errorf("%v on a terminal %v: %v", test.environ, test.terminal, got)
		}
	}
	if got := Palette(true).Bold("x") + Palette(false).Red("y"); got != "\x1b[1mx\x1b[0my" {
		t.Errorf("painted %q", got)
	}
}

func TestNumbersAreShown(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0s", 0.0421: "42ms", 1023: "17m3s", 4800: "1h20m", 7200: "2h", 67108864: "18641h21m4s"} {
		if got := Age(seconds); got != want {
			t.Errorf("an age of %v is shown as %s, want %s", seconds, got, want)
		}
	}
	for bytes, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 67108864: "64.0MiB", 9e18: "7.8EiB"} {
		if got := Size(bytes); got != want {
			t.Errorf("%d bytes are shown as %s, want %s", bytes, got, want)
		}
	}
	for seconds, want := range map[float64]string{0: "1970-01-01T00:00:00Z", 1023: "1970-01-01T00:17:03Z", 1700000000.9: "2023-11-14T22:13:20Z", -1: "1969-12-31T23:59:59Z"} {
		if got := Plain(Unix(seconds)); got != want {
			t.Errorf("%v is shown as %s, want %s", seconds, got, want)
		}
	}
	if got := Plain(time.Date(2023, 11, 14, 23, 14, 0, 123456789, time.FixedZone("", 3600))); got != "2023-11-14T22:14:00Z" {
		t.Errorf("a time of another zone is shown as %s", got)
	}
}
