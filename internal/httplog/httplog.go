// Package httplog brings net/http's error messages into the daemon's log. Such a message
// may quote bytes from the wire or the value of a handler's panic, and either may hold an
// entry's value, which must not reach a log. So the package leaves them out. It imports
// nothing of the project.
package httplog

import (
	"context"
	"log"
	"log/slog"
	"regexp"
	"strings"
)

// New returns an ErrorLog for a server or a proxy. It logs lines at a level, and a panic of
// a handler as an error.
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
		// The value of the panic comes before the stack. It may look like anything.
		stack := text[max(0, strings.LastIndex(text, "\ngoroutine ")):]
		l.logger.Error("panic", "stack", strings.TrimPrefix(stack, "\n"))
		return len(line), nil
	}
	l.logger.Log(context.Background(), l.level, Unquoted(text))
	return len(line), nil
}

// quoted matches a Go string literal: net/http writes bytes from the wire as one.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// Unquoted leaves the quoted parts out of an error or a message of net/http.
func Unquoted(text string) string { return quoted.ReplaceAllString(text, `"…"`) }
