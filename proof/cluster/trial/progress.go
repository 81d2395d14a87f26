package main

import (
	"fmt"
	"os"
	"sync"
)

// progress writes lines, and on a terminal one more that changes. Its methods may be called concurrently.
type progress struct {
	mu       *sync.Mutex
	to       *os.File
	terminal bool
}

func newProgress(to *os.File) progress {
	info, err := to.Stat()
	return progress{new(sync.Mutex), to, err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// clearLine returns to the beginning of the line and empties it.
const clearLine = "\r\x1b[K"

// line writes a line that stays.
func (p progress) line(format string, args ...any) {
	p.show("")
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.to, format+"\n", args...)
}

// show changes the line that changes. Without a terminal there is none.
func (p progress) show(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprintf(p.to, clearLine+format, args...)
	}
}

func (p progress) end() { p.show("") }
