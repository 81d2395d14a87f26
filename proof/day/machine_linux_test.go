package day

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// realTime is the monotonic clock, also within a bubble, where [time.Now] is virtual.
func realTime() time.Duration {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(ts.Nano())
}

// usage is what this process, and the disk of a folder, have done so far.
type usage struct {
	cpu     time.Duration
	written int64 // bytes that the process has written, to files
	device  int64 // bytes that the disk has written for all processes; 0 if it is unknown
}

func usageNow(dir string) (u usage, err error) {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return u, err
	}
	u.cpu = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "wchar: "); ok {
			if u.written, err = strconv.ParseInt(strings.TrimSpace(n), 10, 64); err != nil {
				return u, err
			}
		}
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return u, err
	}
	// A file system in memory, or over several disks, has no such figures.
	text, err = os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", st.Dev>>8&0xfff, st.Dev&0xff|st.Dev>>12&^0xff))
	if errors.Is(err, os.ErrNotExist) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	const sectorsWritten, sector = 6, 512
	words := strings.Fields(string(text))
	if len(words) <= sectorsWritten {
		return u, fmt.Errorf("the disk's figures are %q", text)
	}
	sectors, err := strconv.ParseInt(words[sectorsWritten], 10, 64)
	u.device = sectors * sector
	return u, err
}
