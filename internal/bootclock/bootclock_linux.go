package bootclock

import (
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

// Now returns a name of the present boot, and how long ago it was, to a hundredth of a second. The name is empty if
// the kernel does not say.
func Now() (boot string, since time.Duration) {
	uptime, err := os.ReadFile("/proc/uptime")
	seconds, _, _ := strings.Cut(string(uptime), " ")
	since, malformed := time.ParseDuration(seconds + "s")
	if err != nil || malformed != nil {
		return "", 0
	}
	return name(), since
}
