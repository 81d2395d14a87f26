package serverlog

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
)

// People read the log: it has no nanoseconds.
func TestLogIsReadable(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		newLogger(format == "text", slog.LevelInfo, &out).Info("said", "every", 30*time.Second, "took", 1234567891*time.Nanosecond)
		for _, part := range []string{"30s", "1.235s"} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s without %s: %s", format, part, &out)
			}
		}
		if moment := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[Z+-]`); !moment.Match(out.Bytes()) {
			t.Errorf("%s: the time is not to the millisecond: %s", format, &out)
		}
	}
}

func TestLogger(t *testing.T) {
	for _, test := range []struct {
		name  string
		level slog.Level
		text  bool
	}{
		{"info", slog.LevelInfo, false},
		{"debug", slog.LevelDebug, false},
		{"error", slog.LevelError, true},
	} {
		var out bytes.Buffer
		logger := newLogger(test.text, LevelOf(config.Log{Level: test.name}), &out)
		logger.Log(t.Context(), test.level-1, "too quiet")
		logger.Log(t.Context(), test.level, "loud enough")
		if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 || !bytes.Contains(out.Bytes(), []byte("loud enough")) {
			t.Errorf("%+v: %d lines:\n%s", test, n, out.String())
		}
		if got := json.Valid(out.Bytes()); got == test.text {
			t.Errorf("%+v: JSON is %v:\n%s", test, got, out.String())
		}
	}
}
