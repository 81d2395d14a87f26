package loopback_test

import (
	"net"
	"testing"

	"github.com/botwired/botwired/proof/loopback"
)

// Somebody can listen on a free address, whenever that is, and no other call gets it.
func TestFreeAddress(t *testing.T) {
	given := make(map[string]bool)
	for range 1000 {
		address, err := loopback.FreeAddress(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if given[address] {
			t.Fatalf("%s is given twice", address)
		}
		given[address] = true
	}
	for address := range given {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
