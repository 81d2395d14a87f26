package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/internal/cli"
	"github.com/botwired/botwired/internal/seal"
	"github.com/botwired/botwired/proof/canary"
	"github.com/botwired/botwired/proof/wiretest"
)

// startupLimit bounds how long the program may take until it answers.
const startupLimit = time.Minute

// A client cannot tell the daemon from BotWire, near or 50 ms away.
func TestReplayThroughServe(t *testing.T) {
	for _, latency := range []string{"0s", "50ms"} {
		t.Run(latency, func(t *testing.T) {
			wiretest.Replay(t, startInProcess(t, "serve", "--upstream", "embedded", "--latency", latency), "")
		})
	}
}

// Nor can it tell a daemon that seals, but for what docs/sealed.md names: a key has at most 80 characters.
func TestReplayThroughSealed(t *testing.T) {
	for _, also := range []string{"", `,"write_through":true`} {
		t.Run("sealed"+also, func(t *testing.T) {
			service := newMemoryService(t)
			service.watch = &canary.Watch{}
			service.up()
			keys := filepath.Join(t.TempDir(), "keys")
			no(t, os.WriteFile(keys, seal.Generate(), 0o600))
			base := startInProcess(t, "serve", "--upstream-url", service.url(), "--upstream-late-window", "500ms", "--seal-key-file", keys,
				"--namespaces", `[{"match":"*","sealed":true`+also+`}]`)
			wiretest.Replay(t, base, "", wiretest.Exception{
				Scenario: "bad_key", Step: 2, Status: http.StatusBadRequest, // a GET of a key of 128 characters
				Detail: "Invalid key. Keys of a sealed namespace have at most 80 characters.",
			})
			eventually(t, func() error { // all of it is upstream
				if n := service.watch.Count(); n.Values < 20 {
					return fmt.Errorf("too few sealed values have gone upstream: %s", n)
				}
				return nil
			})
			t.Log(service.watch.Count())
			no(t, service.watch.Err())
		})
	}
}

func TestReplayThroughSelfhost(t *testing.T) {
	wiretest.Replay(t, startInProcess(t, "selfhost"), "")
}

// startInProcess runs the program on a free port and in its own directory, and returns its URL once it
// answers. The program is stopped with the test, and must exit cleanly.
func startInProcess(t *testing.T, args ...string) string {
	t.Helper()
	address := closedAddress(t)
	home := newHome(t)
	ctx, stop := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	exited := make(chan int, 1)
	args = append(args, "--listen", address, "--data-dir", filepath.Join(home, "data"))
	go func() { exited <- run(ctx, args, &stdout, &stderr) }()
	t.Cleanup(func() {
		stop()
		if code := <-exited; code != cli.ExitOK || stdout.Len() > 0 {
			t.Errorf("exit code %d, stdout %q, stderr:\n%s", code, &stdout, &stderr)
		}
	})
	base := "http://" + address
	if !isReady(t, base, exited) {
		t.Fatalf("%v is not ready", args)
	}
	return base
}

// isReady waits until base answers: the daemon says that it is ready, selfhost answers 404. It gives up
// when the program exits.
func isReady(t *testing.T, base string, exited chan int) bool {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startupLimit}
	deadline := time.After(startupLimit)
	for {
		response, err := client.Get(base + "/_botwired/readyz")
		if err == nil {
			_ = response.Body.Close() // only the status matters
			if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNotFound {
				return true
			}
		}
		select {
		case code := <-exited:
			exited <- code // for the cleanup
			return false
		case <-deadline:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Only the daemon's own two probes need no token: an entry may have the same name.
func TestProbesNeedNoToken(t *testing.T) {
	exempt := guardOptions(&config.Config{Listen: "127.0.0.1:0"}, "secret").TokenExempt
	for path, want := range map[string]bool{
		"/_botwired/livez": true, "/_botwired/readyz": true,
		"/memory/ns/livez": false, "/memory/ns/readyz": false, "/memory/livez": false, "/livez": false,
		"/_botwired/status": false, "/_botwired/livez/": false, "/_botwired//livez": false, "/x/_botwired/livez": false,
	} {
		if got := exempt(&http.Request{URL: &url.URL{Path: path}}); got != want {
			t.Errorf("%s: exempt is %v", path, got)
		}
	}
}

// BotWire takes an invalid "%" literally, and says what is wrong with the name. The connection stays
// open.
func TestBrokenEscapesAreInvalidNames(t *testing.T) {
	base := startInProcess(t, "serve", "--upstream", "embedded", "--latency", "0s")
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, c := range []struct{ request, answer string }{
		{"GET /memory/ns/a%zz", "400 application/json Invalid key"},
		{"DELETE /memory/ns/%", "400 application/json Invalid key"},
		{"GET /memory/n%g0/k", "400 application/json Invalid namespace"},
		{"GET /memory/n%2?limit=3", "400 application/json Invalid namespace"},
		{"GET /memory/ns/%41", "404 application/json Key not found: ns/A"},
		{"PUT /memory/ns/%4", "422 application/json"},
	} {
		if _, err := io.WriteString(conn, c.request+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.request, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Detail any }
		if err := json.Unmarshal(body, &doc); err != nil {
			t.Errorf("%s: %v in %q", c.request, err, body)
		}
		got := fmt.Sprintf("%d %s %v", r.StatusCode, r.Header.Get("Content-Type"), doc.Detail)
		if !strings.HasPrefix(got, c.answer) {
			t.Errorf("%s: %s, want %s", c.request, got, c.answer)
		}
	}
}
