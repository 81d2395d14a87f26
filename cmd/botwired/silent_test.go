package main

import (
	"net"
	"testing"

	"github.com/botwired/botwired/internal/cli"
)

// blackHole returns an address that accepts connections and never answers, as a stopped process does.
func blackHole(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// A command does not wait forever for a daemon that never answers.
func TestNobodyAnswers(t *testing.T) {
	address := blackHole(t)
	got := at(t, &daemon{address: address}, nil, "flush", "--timeout", "10ms")
	wantFailure(t, got, cli.ExitError, "no answer came from "+address, "within 3.01s", "hangs, or is stopped, or is not botwired")
}
