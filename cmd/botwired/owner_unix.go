//go:build unix

package main

import (
	"os"
	"syscall"
)

// keepFilesPrivate lets only their owner read and write the files that the process makes from now on,
// under any umask that it was started with.
func keepFilesPrivate() { syscall.Umask(0o077) }

func ownerOf(info os.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return os.Geteuid()
}
