// Package serverlog writes a server's log. The server never waits for the log's reader, which may go
// away or stop reading.
package serverlog

import (
	"bytes"
	"io"
	"log/slog"
	"time"

	"github.com/botwired/botwired/config"
)

// Open returns a server's logger, which writes text or JSON, and its writer. Before the process ends,
// it calls [Writer.End].
func Open(out io.Writer, text bool, level slog.Leveler) (*slog.Logger, *Writer) {
	w := newLogWriter(out, func(dropped int) []byte {
		var line bytes.Buffer
		newLogger(text, slog.LevelWarn, &line).Warn("the log's reader did not keep up: lines are missing here", "lines", dropped)
		return line.Bytes()
	})
	return newLogger(text, level, w), w // guard 22.18
}

// newLogger returns a logger that writes text or JSON, with a level that may change.
func newLogger(text bool, level slog.Leveler, out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if text {
		return slog.New(slog.NewTextHandler(out, options))
	}
	return slog.New(slog.NewJSONHandler(out, options))
}

// LevelOf returns the configured level.
func LevelOf(c config.Log) (level slog.Level) {
	_ = level.UnmarshalText([]byte(c.Level)) // config only accepts slog's levels
	return level
}

// readable formats times and durations for people: with milliseconds, and as "30s" instead of a number
// of nanoseconds.
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
