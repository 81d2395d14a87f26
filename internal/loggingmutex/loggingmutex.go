// Package loggingmutex has a mutex whose holder may log.
package loggingmutex

import (
	"context"
	"log/slog"
	"sync"
)

// Mutex is a mutex whose holder may log: the lines go to the log when the holder has
// released the mutex. A log whose reader stalls thus holds up the goroutine that logs, and
// not all those that want the mutex.
type Mutex struct {
	sync.Mutex
	Logger *slog.Logger
	lines  []logLine // of the present holder
}

// logLine is a line of the log. It holds what the log is to say, and no references to what
// the mutex guards.
type logLine struct {
	level slog.Level
	text  string
	args  []any
}

// Log has a line logged when the mutex is released. The caller holds the mutex.
func (m *Mutex) Log(level slog.Level, text string, args ...any) {
	m.lines = append(m.lines, logLine{level, text, args})
}

// Unlock releases the mutex, and then logs.
func (m *Mutex) Unlock() {
	lines := m.lines
	m.lines = nil
	m.Mutex.Unlock()
	for _, l := range lines {
		m.Logger.Log(context.Background(), l.level, l.text, l.args...)
	}
}
