//go:build unix

package service

import (
	"os"
	"syscall"
)

// listens reports whether a file is a listening stream socket.
func listens(f *os.File) (bool, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var kind, accepts int
	var kindErr, acceptsErr error
	err = raw.Control(func(fd uintptr) {
		kind, kindErr = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TYPE)
		accepts, acceptsErr = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
	})
	return err == nil && kindErr == nil && acceptsErr == nil && kind == syscall.SOCK_STREAM && accepts != 0, err
}
