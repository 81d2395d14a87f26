package main

import (
	"fmt"
	"sync"

	"github.com/botwired/botwired/internal/numbered"
)

// model knows which answers about its keys may be true. Each key has one writer.
type model struct {
	keys []*numbered.Entry

	mu     sync.Mutex
	count  int
	wrongs []string      // the first ones
	tail   func() string // the end of the daemon's log; may be nil
}

const (
	// shownAtMost bounds how many wrong answers are kept and shown. The soak ends there.
	shownAtMost = 20
	// explainedAtMost bounds with how many of them the daemon's log is kept.
	explainedAtMost = 3
)

// wrong notes an answer that cannot be true.
func (m *model) wrong(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count++; m.count > shownAtMost {
		return
	}
	text := fmt.Sprintf(format, args...)
	if m.tail != nil && m.count <= explainedAtMost {
		text += "\nthe daemon's log ended then with:\n" + m.tail()
	}
	m.wrongs = append(m.wrongs, text)
}

func (m *model) wrongCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// epochs counts how often the daemon may have lost what it had acknowledged. An answer to a request that
// began in an earlier epoch shows nothing.
type epochs struct {
	mu sync.RWMutex
	n  int
}

func (e *epochs) epoch() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.n
}

// within judges an answer, if the epoch of its request goes on. It does not end meanwhile.
func (e *epochs) within(epoch int, judge func()) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.n == epoch {
		judge()
	}
}

// end ends an epoch after what the daemon may have lost is known.
func (e *epochs) end(forget func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n++
	forget()
}
