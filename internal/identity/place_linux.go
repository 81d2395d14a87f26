package identity

import (
	"bytes"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// machineID returns the id that systemd or D-Bus generated for the machine. A container often has none,
// or its image's.
func machineID() string {
	for _, name := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if text, err := os.ReadFile(name); err == nil && len(bytes.TrimSpace(text)) >= 32 {
			return string(bytes.TrimSpace(text))
		}
	}
	return ""
}

func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text))
}

func fileOf(info os.FileInfo) File {
	f := File{modified: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.Device, f.Inode = uint64(st.Dev), st.Ino //nolint:unconvert // another type on some platforms
		f.changed = time.Unix(st.Ctim.Unix())
	}
	return f
}

// clockBoottime is the clock that also runs while the machine is suspended.
const clockBoottime = 7

func sinceBoot() (time.Duration, bool) {
	var at syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&at)), 0) //nolint:gosec // the kernel fills it in
	return time.Duration(at.Nano()), errno == 0
}
