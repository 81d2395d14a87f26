//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// terminal is a pseudo-terminal with a command on it.
type terminal struct {
	keys  *os.File // the person's side
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
	term := &terminal{keys: person, tty: tty, code: make(chan int, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{
		args: args, environ: append(environ, "HOME="+t.TempDir()), stdin: tty, stdout: tty, stderr: tty,
		isTerminal: isTerminal, size: terminalSize, ticks: everySecond, now: time.Now,
	}
	go func() { term.code <- p.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		person.Close() // ends what reads the keys
		tty.Close()
	})
	return term
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

// top takes the whole terminal, in colours, and at q gives it back as it was.
func TestTopOnATerminal(t *testing.T) {
	d := newLiveDaemon(t)
	for _, key := range []string{"q", "\x03"} {
		s := newTerminal(t, nil, "top", "--listen", d.address)
		before, err := term.GetState(int(s.tty.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		s.await(t, "throttled, ")
		for _, want := range []string{enterScreen, homeScreen, "\x1b[1m\x1b[32mEverything is safe"} {
			if !strings.Contains(s.shown.String(), want) {
				t.Errorf("%q is not in %q", want, s.shown.String())
			}
		}
		for line := range strings.Lines(strings.ReplaceAll(s.shown.String(), clearLine, "")) {
			if strings.HasSuffix(line, "\n") && !strings.HasSuffix(line, "\r\n") {
				t.Errorf("a line of a raw terminal ends without a carriage return: %q", line)
			}
		}
		if _, err := io.WriteString(s.keys, key); err != nil {
			t.Fatal(err)
		}
		s.await(t, leaveScreen)
		if code := <-s.code; code != exitOK {
			t.Errorf("%q: exit code %d", key, code)
		}
		if after, err := term.GetState(int(s.tty.Fd())); err != nil || *after != *before {
			t.Errorf("%q: the terminal is another than before: %v", key, err)
		}
	}
}

// The help and the status are as wide as the terminal, and without colours where it is dumb.
func TestStatusOnADumbTerminal(t *testing.T) {
	s := newTerminal(t, []string{"TERM=dumb"}, "status", "--listen", newLiveDaemon(t).address)
	s.await(t, "throttled, paused or failed\r\n")
	if code := <-s.code; code != exitOK || strings.Contains(s.shown.String(), "\x1b") {
		t.Errorf("exit code %d, shown %q", code, s.shown.String())
	}
	s = newTerminal(t, nil, "status", "--help")
	s.await(t, "\x1b[1mExamples:\x1b[0m\r\n  botwired status\r\n")
	if code := <-s.code; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
