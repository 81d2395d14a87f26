package loopback

import (
	"runtime"
	"testing"
)

// A claim lasts as long as the process.
func TestAClaimLasts(t *testing.T) {
	address, err := FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a socket that nobody had would be closed now
		runtime.GC()
	}
	if again := claim(t.Context(), address); again && runtime.GOOS == "linux" {
		t.Errorf("%s is claimed twice", address)
	}
}
