//go:build linux || darwin

package main

import (
	"io"
	"os"
	"syscall"
)

// lockHolder returns the id of the process that holds a lock on a file, or 0 if there is none.
func lockHolder(name string) (pid int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil || lock.Type == syscall.F_UNLCK {
		return 0, err
	}
	return int(lock.Pid), nil
}
