package loopback_test

import (
	"net"
	"testing"

	"github.com/botwired/botwired/proof/loopback"
)

// What listens on a free address is there alone, and another free address is another one.
func TestFreeAddress(t *testing.T) {
	taken := make(map[string]bool)
	for range 300 {
		address, err := loopback.FreeAddress(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if taken[address] {
			t.Fatalf("%s is not free", address)
		}
		taken[address] = true
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}
