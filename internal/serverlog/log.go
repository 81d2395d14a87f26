// Package serverlog is the log of a server. Nobody waits for its reader, who may go away or stop reading.
package serverlog

import (
	"bytes"
	"io"
	"log/slog"
	"time"

	"github.com/botwired/botwired/config"
)

// Open returns the logger of a server, which writes text or else JSON, and its writer, whose end the process
// waits for.
func Open(out io.Writer, text bool, level slog.Leveler) (*slog.Logger, *Writer) {
	w := newLogWriter(out, func(dropped int) []byte {
		var line bytes.Buffer
		newLogger(text, slog.LevelWarn, &line).Warn("the log's reader did not keep up: lines are missing here", "lines", dropped)
		return line.Bytes()
	})
	return newLogger(text, level, w), w // guard 22.18
}

// New returns a logger that writes text or else JSON, from a level on that may
// change.
func newLogger(text bool, level slog.Leveler, out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if text {
		return slog.New(slog.NewTextHandler(out, options))
	}
	return slog.New(slog.NewJSONHandler(out, options))
}

// LevelOf returns the level of the configuration.
func LevelOf(c config.Log) (level slog.Level) {
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
