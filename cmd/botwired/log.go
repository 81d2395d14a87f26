package main

import (
	"io"
	"log/slog"

	"github.com/botwired/botwired/config"
)

// newLogger returns a logger that writes text to a terminal and JSON elsewhere, or as
// log.format says.
func newLogger(c config.Log, stderr io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // config accepts only what slog does
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "text" || c.Format == "" && isTerminal(stderr) {
		return slog.New(slog.NewTextHandler(stderr, options))
	}
	return slog.New(slog.NewJSONHandler(stderr, options))
}
