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

// openFilesLimit returns how many files the process may have open, or 0 if the system does not say.
// Go's runtime has already raised the soft limit to the hard one, or one less.
func openFilesLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // its type depends on the platform
}
