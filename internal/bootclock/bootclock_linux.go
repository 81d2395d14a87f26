package bootclock

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// name reads the name that the kernel has drawn for this boot; empty if it says none.
var name = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
})

// uptime is open from the first call on: a process may run out of descriptors.
var uptime = sync.OnceValues(func() (*os.File, error) { return os.Open("/proc/uptime") })

// Now returns a name of the present boot, and how long ago it was, to a hundredth of a second. The name is empty if
// the kernel does not say.
func Now() (boot string, since time.Duration) {
	f, err := uptime()
	if err != nil {
		return "", 0
	}
	var text [64]byte
	n, err := f.ReadAt(text[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", 0
	}
	seconds, _, _ := strings.Cut(string(text[:n]), " ")
	if since, err = time.ParseDuration(seconds + "s"); err != nil {
		return "", 0
	}
	return name(), since
}
