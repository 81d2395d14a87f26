//go:build unix && !aix && !solaris

package listen

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lockSocket locks a socket's name until the returned file is closed or the process ends. If two
// processes find the same stale socket, only the one with the lock may remove it. The lock file itself
// stays. If another process holds the lock, the error is EADDRINUSE.
func lockSocket(path string) (io.Closer, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = syscall.EADDRINUSE
	}
	return nil, errors.Join(err, f.Close())
}

// withUmask runs f with another umask. The umask applies to the whole process: nothing else may create
// files meanwhile.
func withUmask(mask int, f func()) {
	defer syscall.Umask(syscall.Umask(mask))
	f()
}
