package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/botwired/botwired/config"
)

// newLogger returns a logger that writes text to a terminal and JSON elsewhere, or as
// log.format says, from a level on that may change.
func newLogger(c config.Log, level slog.Leveler, stderr io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if c.Format == "text" || c.Format == "" && isTerminal(stderr) {
		return slog.New(slog.NewTextHandler(stderr, options))
	}
	return slog.New(slog.NewJSONHandler(stderr, options))
}

func levelOf(c config.Log) (level slog.Level) {
	_ = level.UnmarshalText([]byte(c.Level)) // config accepts only what slog does
	return level
}

// readable writes times and durations as people do: to the millisecond, and "30s" in place
// of a number of nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.StringValue(a.Value.Time().Format("2006-01-02T15:04:05.000Z07:00"))
	case slog.KindDuration:
		d := a.Value.Duration()
		if d >= time.Second {
			d = d.Round(time.Millisecond)
		}
		a.Value = slog.StringValue(config.FormatDuration(d))
	}
	return a
}
