package serverlog

import (
	"bytes"
	"io"
	"sync"
	"time"
)

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
