package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

// life is a daemon in this process, from start to end.
type life struct {
	t       *testing.T
	address string
	log     chan string // its warnings and errors
	end     func()
}

// startLife returns when the daemon is ready. Its log is JSON.
func startLife(t *testing.T, args ...string) *life {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...), io.Discard, write)
		write.Close()
	}()
	l := &life{t: t, log: make(chan string, 100)}
	ready := make(chan string, 1)
	t.Cleanup(func() {
		cancel()
		for range l.log { // no line comes after the test
		}
	})
	go func() {
		defer close(l.log)
		defer close(ready)
		var address string
		for lines := bufio.NewScanner(read); lines.Scan(); {
			var record struct{ Level, Msg, Address string }
			if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
				t.Errorf("on stderr: %s", lines.Text())
			}
			switch record.Msg {
			case "listening":
				address = record.Address
			case "journal read":
				ready <- address
			}
			if record.Level != "INFO" {
				l.log <- record.Msg
			}
		}
	}()
	if l.address = <-ready; l.address == "" {
		t.Fatalf("the daemon has ended: %d", <-done)
	}
	l.end = func() {
		cancel()
		if code := <-done; code != cli.ExitOK {
			t.Errorf("exit code %d", code)
		}
		for line := range l.log {
			t.Errorf("the log says %q", line)
		}
	}
	return l
}

// put writes to an entry, waits for upstream, and returns the state of the write.
func (l *life) put(value string) string {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), http.MethodPut, "http://"+l.address+"/memory/ns/k", strings.NewReader(`{"value":"`+value+`"}`))
	no(l.t, err)
	r.Header.Set("Prefer", "wait=60")
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	no(l.t, err)
	no(l.t, resp.Body.Close())
	return resp.Header.Get("Botwired-Write")
}

// says fails the test unless the command's output contains part.
func (l *life) says(part string, args ...string) {
	l.t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(l.t.Context(), append(args, "--listen", l.address), &stdout, &stderr)
	if code != cli.ExitOK || !strings.Contains(stdout.String(), part) {
		l.t.Errorf("%v: exit code %d, and it does not say %q: %s%s", args, code, part, stdout.String(), stderr.String())
	}
}

// logs fails the test unless the next warning or error contains part.
func (l *life) logs(part string) {
	l.t.Helper()
	if line := <-l.log; !strings.Contains(line, part) {
		l.t.Errorf("the log says %q, want %q", line, part)
	}
}
