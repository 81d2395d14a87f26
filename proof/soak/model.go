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
	wrongs []string // the first ones
}

// shownAtMost bounds how many wrong answers are kept and shown. The soak ends there.
const shownAtMost = 20

// wrong notes an answer that cannot be true.
func (m *model) wrong(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count++; m.count <= shownAtMost {
		m.wrongs = append(m.wrongs, fmt.Sprintf(format, args...))
	}
}

func (m *model) wrongCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}
