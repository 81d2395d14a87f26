package main

import (
	"bytes"
	"io"
	"log/slog"
	"time"

	"github.com/botwired/botwired/config"
)

// openLog returns the logger of a server. It writes text to a terminal and JSON elsewhere: to a
// service manager, a container's log, a file or a pipe. The process writes the end of the log when
// it ends.
func (p *process) openLog(level slog.Leveler) *slog.Logger {
	text := p.IsTerminal(p.Stderr)
	p.log = newLogWriter(p.Stderr, func(dropped int) []byte {
		var line bytes.Buffer
		newLogger(text, slog.LevelWarn, &line).Warn("the log's reader did not keep up: lines are missing here", "lines", dropped)
		return line.Bytes()
	})
	return newLogger(text, level, p.log) // guard 22.18
}

// newLogger returns a logger that writes text or else JSON, from a level on that may
// change.
func newLogger(text bool, level slog.Leveler, out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if text {
		return slog.New(slog.NewTextHandler(out, options))
	}
	return slog.New(slog.NewJSONHandler(out, options))
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
