package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/internal/cli"
)

func TestFlush(t *testing.T) {
	body := `{"settled":9,"dead":1,"pending":0}`
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/flush?timeout=1m0s":               {200, body},
		"POST /_botwired/flush?namespace=ns&timeout=1m30s": {200, `{"settled":2,"dead":0,"pending":0}`},
		"POST /_botwired/flush?timeout=1h0m0s":             {200, body},
		"POST /_botwired/flush?now=true&timeout=1m0s":      {200, `{"settled":3,"dead":0,"pending":0}`},
	})
	wantOutput(t, at(t, d, nil, "flush", "--now"), "3 settled, 0 dead\n")
	wantOutput(t, at(t, d, nil, "flush"), "9 settled, 1 dead\n")
	wantOutput(t, at(t, d, nil, "flush", "--json"), body+"\n")
	wantOutput(t, at(t, d, nil, "flush", "--namespace", "ns", "--timeout", "90s"), "2 settled, 0 dead\n")
	wantOutput(t, at(t, d, nil, "flush", "--timeout", "1h"), "9 settled, 1 dead\n")
	wantOutput(t, at(t, d, nil, "flush", "--timeout", "60"), "9 settled, 1 dead\n")
}

func TestFlushThatIsLate(t *testing.T) {
	body := `{"settled":9,"dead":0,"pending":3}`
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/flush?timeout=2s": {504, body},
		"POST /_botwired/flush?timeout=3s": {504, `{"detail":"gateway timeout"}`},
		"POST /_botwired/flush?timeout=4s": {503, `{"detail":"closing"}`},
		"POST /_botwired/flush?timeout=5s": {200, `{}`},
		"POST /_botwired/flush?timeout=7s": {504, `{"settled":0,"dead":0,"pending":0}`},
		"POST /_botwired/flush?timeout=6s": {504, `{"settled":0,"dead":0,"pending":1,"waits":[` +
			`{"namespace":"a","why":"throttled: HTTP 429: no","until":"2023-11-14T22:14:00Z"},{"namespace":"b","why":"upstream is down: x","until":null},` +
			`{"namespace":"c","why":"w"},{"namespace":"d","why":"w"}]}`},
	})
	wantFailure(t, at(t, d, nil, "flush", "--timeout", "6s"), cli.ExitError, "1 write is still pending", "botwired keeps it and goes on; "+
		"namespace a: throttled: HTTP 429: no, until 2023-11-14T22:14:00Z; namespace b: upstream is down: x; namespace c: w; more namespaces wait (1): see botwired status")
	// A daemon that is stopped answers early: the line has the time that passed, not the timeout.
	line := regexp.MustCompile(`^botwired: 3 writes are still pending after (\d+ ms|1[.\d]* s) \(9 settled, 0 dead\); botwired keeps them and goes on\n$`)
	for args, stdout := range map[string]string{"flush --timeout 2s": "", "flush --timeout 2s --json": body + "\n"} {
		if got := at(t, d, nil, strings.Fields(args)...); got.code != cli.ExitError || got.stdout != stdout || !line.MatchString(got.stderr) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	wantFailure(t, at(t, d, nil, "flush", "--timeout", "3s"), cli.ExitError, "gateway timeout (HTTP 504)")
	wantFailure(t, at(t, d, nil, "flush", "--timeout", "4s"), cli.ExitError, "closing")
	wantFailure(t, at(t, d, nil, "flush", "--timeout", "5s"), cli.ExitError, "not one of botwired's")
	wantFailure(t, at(t, d, nil, "flush", "--timeout", "7s"), cli.ExitError, "has not read its journal yet")
}

// On a terminal, every tick asks for the status until the flush is answered.
func TestFlushShowsProgress(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "12 pending"},
		{[]string{"--namespace", "ns"}, "4 pending"},
		{[]string{"--namespace", "quiet"}, "0 pending"},
	} {
		tick := make(chan time.Time)
		flushed, progress := make(chan struct{}), make(chan string)
		server := httptest.NewServer(ofThisAccount(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/_botwired/status" {
				_, _ = io.WriteString(w, statusWith(t, `"pending":12,"namespaces":[{"namespace":"ns","pending":4}]`))
				return
			}
			<-flushed
			_, _ = io.WriteString(w, `{"settled":12,"dead":0,"pending":0}`)
		})))
		done := make(chan outcome)
		go func() {
			done <- at(t, &daemon{address: server.Listener.Addr().String()}, func(p *cli.Program) {
				onTerminal(p)
				p.Stderr = writes(progress)
				p.Ticks = func() (<-chan time.Time, func()) { return tick, func() {} }
			}, append([]string{"flush"}, test.args...)...)
		}()
		for range 2 {
			tick <- time.Time{}
			if got := <-progress; got != "\r\x1b[K"+test.want {
				t.Errorf("%v: progress %q, want %q", test.args, got, test.want)
			}
		}
		close(flushed)
		if got := <-progress; got != "\r\x1b[K" {
			t.Errorf("the line is left as %q", got)
		}
		wantOutput(t, <-done, "12 settled, 0 dead\n")
		server.Close()
	}
}

// writes sends every write to the channel, as a string.
type writes chan string

func (w writes) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func TestFlushIsInterrupted(t *testing.T) {
	arrived := make(chan struct{})
	server := httptest.NewServer(ofThisAccount(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	var stderr strings.Builder
	newHome(t)
	code := run(ctx, []string{"flush", "--listen", server.Listener.Addr().String()}, io.Discard, &stderr)
	if code != cli.ExitError || stderr.String() != "botwired: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestOutputThatCannotBeWritten(t *testing.T) {
	d := newDaemon(t, map[string]answer{
		"POST /_botwired/flush?timeout=1m0s": {200, `{"settled":0,"dead":0,"pending":0}`},
		"GET /_botwired/status":              {200, statusWith(t, "")},
		"GET /memory/ns/k":                   {200, `{"value":"v"}`},
		"GET /memory/ns?limit=100":           {200, `{"keys":[]}`},
		"PUT /memory/ns/k":                   {200, `{}`},
	})
	for _, args := range [][]string{{"flush"}, {"flush", "--json"}, {"status"}, {"get", "ns", "k"}, {"list", "ns"},
		{"set", "ns", "k", "v"}, {"config"}, {"config", "--json"}, {"version"}} {
		broken := func(p *cli.Program) { p.Stdout = brokenPipe{} }
		wantFailure(t, at(t, d, broken, args...), cli.ExitError, "broken pipe")
	}
}
