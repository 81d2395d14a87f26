package serverlog

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// logBacklog is the most, in bytes, that may wait for the log's reader. A burst of 10,000 lines
	// fits.
	logBacklog = 4 << 20
	// LogDrain is how long a process that ends waits for its log's reader.
	LogDrain = time.Second
	// FatalDrain is how long a process waits for its log's reader when its disk has failed (contract 2).
	FatalDrain = 500 * time.Millisecond
)

// Writer stands between a server and its log, so that nobody waits for the log's reader: a pipe whose
// reader has stopped blocks for ever. It keeps the order of the lines, and writes each whole. If there
// is no room for a line, Writer drops it, and writes one line in place of the dropped ones that says
// how many they are. Each call of Write is one line. All methods may be called concurrently.
type Writer struct {
	out    io.Writer
	notice func(dropped int) []byte // the line that stands for those that were dropped
	torn   bool                     // the last write ended within a line; of the goroutine
	done   chan struct{}            // closed when the goroutine has ended

	mu      sync.Mutex // guards the fields below; never held during a write to out
	wake    sync.Cond  // backlog or ending has changed
	backlog []byte     // whole lines
	dropped int        // lines that came after the backlog
	ending  bool
	ended   bool // the goroutine writes nothing more
}

func newLogWriter(out io.Writer, notice func(dropped int) []byte) *Writer {
	w := &Writer{out: out, notice: notice, done: make(chan struct{})}
	w.wake.L = &w.mu
	go w.run()
	return w
}

// Write takes a line and never fails.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Once a line was dropped, so are all behind it, until the backlog goes out: the
	// notice stands in the place of one run of lines.
	if len(w.backlog) > 0 && (w.dropped > 0 || len(w.backlog)+len(line) > logBacklog) {
		w.dropped++ // guard 22.19
		return len(line), nil
	}
	w.backlog = append(w.backlog, line...)
	w.wake.Signal()
	return len(line), nil
}

// Last takes a line that says why the process ends. There is always room for it, even when the log has
// ended.
func (w *Writer) Last(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		_, _ = io.WriteString(w.out, line) // nobody is left to hear of its failure
		return
	}
	if w.dropped > 0 {
		w.backlog = append(w.backlog, w.notice(w.dropped)...)
		w.dropped = 0
	}
	w.backlog = append(w.backlog, line...)
	w.wake.Signal()
}

// End returns when all lines are written, or after the limit: the goroutine of a log whose
// reader has stopped ends with the process.
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
	missing := 0 // lines that could not be written since the last one that could
	for {
		lines, dropped := w.take()
		if len(lines) == 0 {
			return
		}
		for line := range bytes.Lines(lines) { // each in one piece: no other writer to a pipe tears it
			missing = w.write(line, missing)
		}
		if dropped > 0 {
			missing = w.write(nil, missing+dropped)
		}
	}
}

// take waits for lines and takes all that there are. After the end it returns none.
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

// write writes a line, after a notice of those that are missing before it. It returns how
// many are missing now: a file on a full disk, say, takes none for a while.
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
