//go:build unix && !aix && !solaris

package main

import (
	"errors"
	"os"
	"syscall"
)

// lockSocket takes the name of a socket for as long as the file that it returns is open:
// of two processes that find a socket left behind, one may remove it. The file stays
// when it is closed, and the lock goes with its process. The error is EADDRINUSE when
// another has it.
func lockSocket(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, socketMode)
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
