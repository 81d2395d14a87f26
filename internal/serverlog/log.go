// Package serverlog writes a server's log. The server never waits for the log's reader, which may go
// away or stop reading.
package serverlog

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
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

const (
	// logBacklog is how many bytes may wait for the log's reader. A burst of 10,000 lines fits.
	logBacklog = 4 << 20
	// LogDrain is how long an ending process waits for its log's reader.
	LogDrain = time.Second
	// FatalDrain is how long a process whose disk has failed waits for its log's reader (contract 2).
	FatalDrain = 500 * time.Millisecond
)

// Writer decouples a server from its log, so that nobody waits for the log's reader: a pipe whose
// reader has stopped blocks forever. It keeps the order of the lines, and writes each in one piece. If
// there is no room for a line, Writer drops it. One line replaces the dropped ones and says how many
// they were. Each call of Write is one line. It is safe for concurrent use.
type Writer struct {
	out    io.Writer
	notice func(dropped int) []byte // the line that replaces dropped ones
	torn   bool                     // the last write ended within a line; only the goroutine uses it
	done   chan struct{}            // closed when the goroutine has ended

	mu      sync.Mutex // guards the fields below; never held during a write to out
	wake    sync.Cond  // backlog or ending has changed
	backlog []byte     // whole lines
	dropped int        // lines dropped after the backlog
	ending  bool
	ended   bool // the goroutine no longer writes
}

func newLogWriter(out io.Writer, notice func(dropped int) []byte) *Writer {
	w := &Writer{out: out, notice: notice, done: make(chan struct{})}
	w.wake.L = &w.mu
	go w.run()
	return w
}

// Write queues a line and never fails.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// After one dropped line, all further lines are dropped until the backlog is written: one notice
	// replaces one run of lines.
	if len(w.backlog) > 0 && (w.dropped > 0 || len(w.backlog)+len(line) > logBacklog) {
		w.dropped++ // guard 22.19
		return len(line), nil
	}
	w.backlog = append(w.backlog, line...)
	w.wake.Signal()
	return len(line), nil
}

// Last queues a line that says why the process ends. There is always room for it. If the goroutine has
// ended, Last writes the line itself.
func (w *Writer) Last(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		_, _ = io.WriteString(w.out, line) // nobody is left to report an error to
		return
	}
	if w.dropped > 0 {
		w.backlog = append(w.backlog, w.notice(w.dropped)...)
		w.dropped = 0
	}
	w.backlog = append(w.backlog, line...)
	w.wake.Signal()
}

// End returns when all lines are written, or after the limit: if the log's reader has stopped, the
// goroutine ends with the process.
func (w *Writer) End(limit time.Duration) {
	w.mu.Lock()
	w.ending = true
	w.wake.Signal()
	w.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
	}
}

func (w *Writer) run() {
	defer close(w.done)
	missing := 0 // lines lost since the last successful write
	for {
		lines, dropped := w.take()
		if len(lines) == 0 {
			return
		}
		for line := range bytes.Lines(lines) { // each in one write, so that other writers to a pipe cannot split it
			missing = w.write(line, missing)
		}
		if dropped > 0 {
			missing = w.write(nil, missing+dropped)
		}
	}
}

// take waits for lines and returns all of them. After the end it returns none.
func (w *Writer) take() (lines []byte, dropped int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.backlog) == 0 && !w.ending {
		w.wake.Wait()
	}
	lines, dropped = w.backlog, w.dropped
	w.backlog, w.dropped = nil, 0
	w.ended = len(lines) == 0
	return lines, dropped
}

// write writes a line, after a notice of the lines missing before it. It returns how many are missing
// now: a file on a full disk, for example, accepts none for a while.
func (w *Writer) write(line []byte, missing int) int {
	var text []byte
	if w.torn {
		text = append(text, '\n')
	}
	if missing > 0 {
		text = append(text, w.notice(missing)...)
	}
	before := len(text)
	text = append(text, line...)
	n, err := w.out.Write(text)
	if n > 0 {
		w.torn = text[n-1] != '\n'
	}
	switch {
	case err == nil:
		return 0
	case n >= before:
		missing = 0
	}
	if len(line) == 0 {
		return missing
	}
	return missing + 1
}
