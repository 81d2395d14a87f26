//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/cli/term"
	"github.com/botwired/botwired/internal/service"
)

// terminal is a pseudo-terminal with a command on it.
type terminal struct {
	keys  *os.File // the user's side
	tty   *os.File
	code  chan int
	shown bytes.Buffer
}

// newTerminal runs a command on a terminal of 80 columns.
func newTerminal(t *testing.T, environ []string, args ...string) *terminal {
	t.Helper()
	person, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	shown := &terminal{keys: person, tty: tty, code: make(chan int, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	p := newProcess(term.Terminal{
		Environ:    append(environ, "HOME="+t.TempDir()),
		Stdin:      tty,
		Stdout:     tty,
		Stderr:     tty,
		IsTerminal: term.IsTerminal,
		Size:       term.SizeOf,
		Ticks:      term.EverySecond,
		Now:        time.Now,
	}, args, &service.Inherited{})
	go func() { shown.code <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		person.Close() // ends the reader of the keys
		tty.Close()
	})
	return shown
}

// await reads until the terminal has shown a text.
func (s *terminal) await(t *testing.T, want string) {
	t.Helper()
	some := make([]byte, 4096)
	for !strings.Contains(s.shown.String(), want) {
		n, err := s.keys.Read(some)
		s.shown.Write(some[:n])
		if err != nil {
			t.Fatalf("%v before %q in %q", err, want, s.shown.String())
		}
	}
}

// The help and the status are as wide as the terminal, and have no colours on a dumb one.
func TestStatusOnADumbTerminal(t *testing.T) {
	s := newTerminal(t, []string{"TERM=dumb"}, "status", "--listen", newLiveDaemon(t).address)
	s.await(t, "throttled: ")
	if code := <-s.code; code != cli.ExitOK || strings.Contains(s.shown.String(), "\x1b") {
		t.Errorf("exit code %d, shown %q", code, s.shown.String())
	}
	s = newTerminal(t, nil, "status", "--help")
	s.await(t, "\x1b[1mExamples:\x1b[0m\r\n  botwired status\r\n")
	if code := <-s.code; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
}
