//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
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
	stop  func()
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
	ctx, cancel := context.WithCancel(t.Context())
	shown := &terminal{keys: person, tty: tty, code: make(chan int, 1), stop: cancel}
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

// serve on a terminal says what a user needs: that it is ready, what to export, the page, upstream and how to stop.
func TestServeOnATerminal(t *testing.T) {
	s := newTerminal(t, []string{"TERM=dumb"}, "serve", "--upstream", "embedded", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir())
	s.await(t, "To stop:   Ctrl-C")
	shown := strings.ReplaceAll(s.shown.String(), "\r\n", "\n")
	want := `(?m)^botwired is ready\.
  Agents:    export BOTWIRE_URL=(http://127\.0\.0\.1:\d+)
  Page:      (http://127\.0\.0\.1:\d+)
  Upstream:  embedded \(.+\)
  To stop:   Ctrl-C`
	if found := regexp.MustCompile(want).FindStringSubmatch(shown); found == nil || found[1] != found[2] {
		t.Errorf("shown:\n%s", shown)
	}
	s.stop()
	go func() { _, _ = io.Copy(io.Discard, s.keys) }() // the terminal takes no more than is read
	if code := <-s.code; code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

// On a terminal, JSON has no characters that control it, and means the same.
func TestJSONOnATerminal(t *testing.T) {
	const harmful, escaped = "\u009b2J\u009d\u202e\u007f\U000e0001 \u00fc\u8a9e", `\u009b2J\u009d\u202e\u007f\udb40\udc01 ` + "\u00fc\u8a9e"
	end := `{"end":{"namespace":"a","entries":1,"missing":0,"complete":true}}` + "\n"
	d := newDaemon(t, map[string]answer{
		"GET /memory/a/k":                      {200, `{"value":"` + harmful + `"}`},
		"GET /_botwired/export?namespace=a":    {200, `{"value":"` + harmful + `"}` + "\n" + end},
		"GET /_botwired/namespaces?limit=1000": {200, `{"namespaces":[{"namespace":"` + harmful + `"}],"next":null}`},
	})
	for _, args := range [][]string{{"get", "a", "k", "--json"}, {"export", "a"}, {"list", "--json"}} {
		if plain := at(t, d, nil, args...); plain.code != cli.ExitOK || !strings.Contains(plain.stdout, harmful) {
			t.Errorf("%s into a pipe: exit code %d, %q", args, plain.code, plain.stdout)
		}
		s := newTerminal(t, []string{"TERM=dumb"}, append(args, "--listen", d.address)...)
		s.await(t, "}\r\n")
		if code := <-s.code; code != cli.ExitOK || !strings.Contains(s.shown.String(), escaped) {
			t.Errorf("%s: exit code %d, %q", args, code, s.shown.String())
		}
	}
}
