package identity

import (
	"os"
	"syscall"
	"time"
)

// machineID and bootID return "": on Windows, the times of its files show that a directory is a copy.
func machineID() string { return "" }

func bootID() string { return "" }

func fileOf(info os.FileInfo) File {
	f := File{modified: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		f.Born = st.CreationTime.Nanoseconds()
	}
	return f
}

func sinceBoot() (time.Duration, bool) { return 0, false }
