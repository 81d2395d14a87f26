//go:build unix

package main

import (
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/botwired/botwired/internal/cli/term"
)

// terminalTests are the tests in TestProcess on a terminal: the system turns a key such as Ctrl-C into
// a signal only for a process with a controlling terminal.
var terminalTests = map[string]func(*testing.T, string){
	"monitor on a terminal":        testMonitorOnATerminal,
	"status --watch on a terminal": testWatchOnATerminal,
}

// monitor shows a line for each request, in columns and colours, until Ctrl-C.
func testMonitorOnATerminal(t *testing.T, program string) {
	asked := make(chan string, 1)
	cmd, _ := command(t.Context(), t, program, "monitor", "--listen", newMonitored(t, asked))
	cmd.Env, cmd.Stderr = append(cmd.Env, "TZ=UTC"), nil // the terminal
	person, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	no(t, err)
	t.Cleanup(func() { person.Close() })
	s := &terminal{keys: person}
	c := term.Palette(true)
	last := "ns/k2" + c.Dim("  5B") + "\r\n"
	s.await(t, last)
	_, err = io.WriteString(person, "\x03")
	no(t, err)
	_, _ = io.Copy(&s.shown, person) // the read fails when no process has the terminal open
	if err := cmd.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	want := c.Bold("TIME          METHOD HTTP  FROM           TOOK  ENTRY") + "\r\n" +
		c.Dim("20:59:58.123") + "  GET    " + c.Green(" 200") + "  memory         12µs  ns/k" + c.Dim("  age 3s") + c.Dim("  24B") + "\r\n" +
		"7 requests left out: they came faster than monitor shows them\r\n" +
		c.Dim("20:59:59.123") + "  PUT    " + c.Red(" 503") + "  " + c.Yellow("upstream ") + "    51.2ms  " + last
	if shown := strings.TrimSuffix(s.shown.String(), "^C"); shown != want {
		t.Errorf("shown\n%q, want\n%q", shown, want)
	}
}

// status --watch uses the whole terminal, in colours, and restores it at Ctrl-C.
func testWatchOnATerminal(t *testing.T, program string) {
	cmd, _ := command(t.Context(), t, program, "status", "--watch", "--listen", newLiveDaemon(t).address)
	cmd.Stderr = nil // the terminal
	person, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	no(t, err)
	t.Cleanup(func() { person.Close() })
	s := &terminal{keys: person}
	s.await(t, "\x1b[J")
	_, err = io.WriteString(person, "\x03")
	no(t, err)
	_, _ = io.Copy(&s.shown, person)
	if err := cmd.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	shown := s.shown.String()
	if !strings.HasPrefix(shown, "\x1b[?1049h\x1b[?25l"+"\x1b[H\x1b[1m\x1b[32mEverything is safe") || !strings.HasSuffix(shown, "\x1b[?25h\x1b[?1049l") {
		t.Errorf("shown %q", shown)
	}
}
