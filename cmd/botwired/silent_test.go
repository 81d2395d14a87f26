package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/botwired/botwired/config"
)

// blackHole is an address where connections are taken and never answered, as those of a
// stopped process are.
func blackHole(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// A command does not wait for ever in front of something that never answers.
func TestNobodyAnswers(t *testing.T) {
	address := blackHole(t)
	got := at(t, &daemon{address: address}, nil, "flush", "--timeout", "10ms")
	wantFailure(t, got, exitError, "no answer came from "+address, "within 3.01s", "hangs, or is stopped, or is not botwired")

	loaded, err := config.Load(config.Sources{
		Environ: []string{"HOME=" + t.TempDir(), "LocalAppData=" + t.TempDir()},
		Flags:   map[string]string{"listen": address},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := newClient(loaded)
	if err != nil {
		t.Fatal(err)
	}
	c.firstByte = time.Millisecond
	if _, err := c.do(t.Context(), request{method: "GET", path: surface("status")}); err == nil || !strings.Contains(err.Error(), "within 1ms") {
		t.Errorf("the error is %v", err)
	}
}
