//go:build linux || darwin

package doctor_test

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
)

// TestHoldsLock is the other process of TestHolder: it holds the lock until its input ends.
func TestHoldsLock(t *testing.T) {
	name := os.Getenv("HOLD")
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("locked")
	_, _ = io.ReadAll(os.Stdin)
}
