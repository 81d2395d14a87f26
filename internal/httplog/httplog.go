// Package httplog brings net/http's error messages into the daemon's log. Such a message may quote bytes from
// the wire or the value of a handler's panic. Either may hold an entry's value, which must not reach a log,
// so the package leaves them out. It imports nothing of the project.
package httplog

import (
	"context"
	"log"
	"log/slog"
	"regexp"
	"strings"
)

// New returns an ErrorLog for a server or a proxy. It logs lines at level, but a handler's panic as an error.
func New(logger *slog.Logger, level slog.Level) *log.Logger {
	return log.New(&lines{logger, level}, "", 0)
}

// lines writes one log record per Write: log.Logger calls Write once per message.
type lines struct {
	logger *slog.Logger
	level  slog.Level
}

func (l *lines) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if strings.HasPrefix(text, "http: panic serving ") {
		// The panic's value comes before the stack, and may look like anything.
		stack := text[max(0, strings.LastIndex(text, "\ngoroutine ")):]
		l.logger.Error("panic", "stack", strings.TrimPrefix(stack, "\n"))
		return len(line), nil
	}
	l.logger.Log(context.Background(), l.level, Unquoted(text))
	return len(line), nil
}

// quoted matches a Go string literal: net/http quotes bytes from the wire like that.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// Unquoted replaces the quoted parts of net/http's errors and messages with "…".
func Unquoted(text string) string { return quoted.ReplaceAllString(text, `"…"`) }
