package identity

import (
	"os"
	"syscall"
	"time"
)

func machineID() string { return sysctl("kern.uuid") }

func bootID() string { return sysctl("kern.bootsessionuuid") }

func sysctl(name string) string {
	text, err := syscall.Sysctl(name)
	if err != nil {
		return ""
	}
	return text
}

func fileOf(info os.FileInfo) File {
	f := File{modified: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.Device, f.Inode, f.Born = uint64(st.Dev), st.Ino, st.Birthtimespec.Nano()
		f.changed = time.Unix(st.Ctimespec.Unix())
	}
	return f
}

// sinceBoot is not needed here: the wall clock runs during a suspension, and the monotonic one does
// not.
func sinceBoot() (time.Duration, bool) { return 0, false }
