//go:build unix

package service

import (
	"os"
	"syscall"
)

// listens fails if a file is not a stream socket that takes connections.
func listens(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var kind, accepts int
	var kindErr, acceptsErr error
	err = raw.Control(func(fd uintptr) {
		kind, kindErr = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TYPE)
		accepts, acceptsErr = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
	})
	if err != nil {
		return err
	}
	if kindErr != nil || acceptsErr != nil || kind != syscall.SOCK_STREAM || accepts == 0 {
		return errNoListener
	}
	return nil
}
