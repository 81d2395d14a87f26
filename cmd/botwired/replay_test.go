package main

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/proof/wiretest"
)

// startupLimit bounds how long the program may take until it answers.
const startupLimit = 20 * time.Second

// A client cannot tell the daemon from BotWire, however far away upstream is.
func TestReplayThroughServe(t *testing.T) {
	for _, latency := range []string{"0s", "50ms"} {
		t.Run(latency, func(t *testing.T) {
			wiretest.Replay(t, startInProcess(t, "serve", "--upstream", "embedded", "--latency", latency))
		})
	}
}

func TestReplayThroughSelfhost(t *testing.T) {
	wiretest.Replay(t, startInProcess(t, "selfhost"))
}

// startInProcess runs the program on a free port and in a directory of its own, and returns its URL once it
// answers. The program is stopped with the test, and must then exit cleanly.
func startInProcess(t *testing.T, args ...string) string {
	t.Helper()
	address := closedAddress(t)
	home := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	exited := make(chan int, 1)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	args = append(args, "--listen", address, "--data-dir", filepath.Join(home, "data"))
	go func() { exited <- run(ctx, args, &stdout, &stderr) }()
	t.Cleanup(func() {
		stop()
		if code := <-exited; code != exitOK || stdout.Len() > 0 {
			t.Errorf("exit code %d, stdout %q, stderr:\n%s", code, &stdout, &stderr)
		}
	})
	base := "http://" + address
	if !isReady(t, base, exited) {
		t.Fatalf("%v is not ready", args)
	}
	return base
}

// isReady waits until base answers: the daemon by saying that it is ready, selfhost by saying that
// it knows no such page. It gives up when the program exits.
func isReady(t *testing.T, base string, exited chan int) bool {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	deadline := time.After(startupLimit)
	for {
		response, err := client.Get(base + "/_botwired/readyz")
		if err == nil {
			_ = response.Body.Close() // the status is all there is to know
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

// Only the daemon's own two probes go without a token: an entry may have their names.
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
