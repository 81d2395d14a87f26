//go:build linux || darwin

package doctor

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Holder returns the number of the process that holds a lock on a file, 0 if none does or if
// there is no such file, and -1 if the system does not say which. The process that calls it
// must not hold a lock on the file itself: it would lose that.
func Holder(name string) (pid int, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		return 0, err
	}
	switch {
	case lock.Type == syscall.F_UNLCK:
		return 0, nil
	case lock.Pid <= 0: // of another container
		return -1, nil
	}
	return int(lock.Pid), nil
}
