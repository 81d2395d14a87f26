// Package httplog takes what net/http says of trouble into the daemon's log. It says it
// with what came by the wire, or with what a handler panicked with, and either may be a
// value, which never reaches a log. The package imports nothing of the project.
package httplog

import (
	"context"
	"log"
	"log/slog"
	"regexp"
	"strings"
)

// New is an ErrorLog for a server or a proxy: its lines are logged at a level, but for a
// panic of a handler, which is an error.
func New(logger *slog.Logger, level slog.Level) *log.Logger {
	return log.New(&lines{logger, level}, "", 0)
}

// lines gets one message with each call.
type lines struct {
	logger *slog.Logger
	level  slog.Level
}

func (l *lines) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if strings.HasPrefix(text, "http: panic serving ") {
		// What it panicked with comes before the stack, whatever it looks like.
		stack := text[max(0, strings.LastIndex(text, "\ngoroutine ")):]
		l.logger.Error("panic", "stack", strings.TrimPrefix(stack, "\n"))
		return len(line), nil
	}
	l.logger.Log(context.Background(), l.level, Unquoted(text))
	return len(line), nil
}

// quoted is a Go string literal: net/http writes what came by the wire as one.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// Unquoted leaves out what an error or a message of net/http quotes.
func Unquoted(text string) string { return quoted.ReplaceAllString(text, `"…"`) }
