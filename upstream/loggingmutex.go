package upstream

import (
	"context"
	"log/slog"
	"sync"
)

// loggingMutex is a mutex whose holder may log: the lines go to the log when the holder has
// released the mutex. A log whose reader stalls thus holds up the goroutine that logs, and
// not all those that want the mutex.
type loggingMutex struct {
	sync.Mutex
	logger *slog.Logger
	lines  []logLine // of the present holder
}

// logLine is a line of the log. It holds what the log is to say, and no references to what
// the mutex guards.
type logLine struct {
	level slog.Level
	text  string
	args  []any
}

// log has a line logged when the mutex is released. The caller holds the mutex.
func (m *loggingMutex) log(level slog.Level, text string, args ...any) {
	m.lines = append(m.lines, logLine{level, text, args})
}

// Unlock releases the mutex, and then logs.
func (m *loggingMutex) Unlock() {
	lines := m.lines
	m.lines = nil
	m.Mutex.Unlock()
	for _, l := range lines {
		m.logger.Log(context.Background(), l.level, l.text, l.args...)
	}
}
