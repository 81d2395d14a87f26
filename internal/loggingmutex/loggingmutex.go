// Package loggingmutex has a mutex whose holder may log.
package loggingmutex

import (
	"context"
	"log/slog"
	"sync"
)

// Mutex is a mutex whose holder may log: the lines are logged after the holder has released it. So a
// log whose reader stalls only delays the logging goroutine, and not everybody who waits for the mutex.
type Mutex struct {
	sync.Mutex
	Logger *slog.Logger
	lines  []logLine // of the current holder
}

// logLine is a line of the log. It must not refer to anything that the mutex guards.
type logLine struct {
	level slog.Level
	text  string
	args  []any
}

// Log logs a line when the mutex is released. The caller holds the mutex.
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
