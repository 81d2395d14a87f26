package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBenchRefuses(t *testing.T) {
	const up = "http://127.0.0.1:1"
	d := newDaemon(t, map[string]answer{
		"GET /_botwired/status": {200, `{"version":"1","pending":0,"upstream":{"url":"` + up + `","state":"up"}}`},
	})
	wantFailure(t, at(t, d, nil, "bench", "--upstream", "embedded"), exitError, "upstream.url", "cannot be asked directly")
	wantFailure(t, at(t, d, nil, "bench", "--upstream", "http://127.0.0.1:2"), exitError, d.address, up, "http://127.0.0.1:2")
	other := newDaemon(t, map[string]answer{"GET /_botwired/status": {200, `{"status":"ok"}`}})
	wantFailure(t, at(t, other, nil, "bench", "--upstream", up), exitError, "another program than botwired listens at "+other.address)
	wantFailure(t, at(t, d, nil, "bench", "--writes", "0"), exitUsage, "--writes")
	closed := &daemon{address: closedAddress(t)}
	wantFailure(t, at(t, closed, nil, "bench"), exitError, "cannot reach botwired at "+closed.address)

	unreachable := at(t, d, nil, "bench", "--upstream", up)
	announced, failed, _ := strings.Cut(unreachable.stderr, "\n")
	if !strings.HasPrefix(announced, "bench makes 20 writes to "+up) {
		t.Errorf("announced %q", announced)
	}
	wantFailure(t, outcome{unreachable.code, unreachable.stdout, failed}, exitError, "upstream at "+up, "refused")
	for _, each := range d.asked {
		if each.Target != "GET /_botwired/status" {
			t.Errorf("the daemon was asked %s", each.Target)
		}
	}
}

func TestTimes(t *testing.T) {
	for ratio, want := range map[float64]string{0.042: "0.04x", 0.5: "0.50x", 0.996: "1.00x", 1.04: "1.0x", 9.5: "9.5x", 10: "10x", 1234.5: "1234x"} {
		if got := times(ratio); got != want {
			t.Errorf("times(%v) = %s, want %s", ratio, got, want)
		}
	}
}

// testBench measures through a daemon with a token, and finds upstream as it was
// before.
func testBench(t *testing.T, program string) {
	service := newMemoryService(t).up()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, program, t.TempDir(), freeAddress(t), service.url(), "--auth-token-file", token)
	args := []string{"bench", "--upstream", service.url(), "--auth-token-file", token, "--writes", "3", "--reads", "4", "--local", "50"}

	got := at(t, &daemon{address: c.address}, nil, args...)
	if got.code != exitOK || !strings.HasPrefix(got.stderr, "bench makes 3 writes to "+service.url()) || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	lines := strings.Split(got.stdout, "\n")
	if len(lines) != 6 || !strings.Contains(lines[0], "UPSTREAM") || !strings.HasPrefix(lines[1], "GET p50") {
		t.Errorf("stdout:\n%s", got.stdout)
	}

	got = at(t, &daemon{address: c.address}, nil, append(args, "--json")...)
	var answer struct {
		Upstream string
		Measured []benchRow
	}
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || answer.Upstream != service.url() || len(answer.Measured) != 2 {
		t.Fatalf("%v in %q, stderr %q", err, got.stdout, got.stderr)
	}
	for _, r := range answer.Measured {
		want := map[string]int{"GET": 4, "PUT": 3}[r.Op]
		if r.Upstream.Requests != want || r.Botwired.Requests != 50 || r.Upstream.P50 <= 0 || r.Botwired.P99 < r.Botwired.P50 {
			t.Errorf("%+v", r)
		}
	}
	service.wantEmpty(t)
}

// wantEmpty checks that bench has deleted its entries.
func (m *memoryService) wantEmpty(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	written := slices.Collect(maps.Keys(m.puts))
	m.mu.Unlock()
	if len(written) < 2 {
		t.Errorf("written upstream: %q", written)
	}
	for _, key := range written {
		if value, err := m.value(key); err == nil {
			t.Errorf("%s is still there: %d bytes", key, len(value))
		}
	}
}
