package main

import (
	"fmt"
	"os"
)

// progress is one line on a terminal that names the running step. Where there is no
// terminal it prints nothing.
type progress struct{ to *os.File }

func newProgress(to *os.File) progress {
	info, err := to.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return progress{}
	}
	return progress{to}
}

// clearLine returns to the beginning of the line and empties it.
const clearLine = "\r\x1b[K"

func (p progress) show(format string, args ...any) {
	if p.to != nil {
		fmt.Fprintf(p.to, clearLine+format, args...)
	}
}

func (p progress) end() { p.show("") }
