package botwire

import (
	"net"
	"syscall"
	"unsafe"
)

// unacknowledged returns how many of the bytes that a TCP connection has taken the other side's kernel has not
// acknowledged; 0 if it cannot be asked.
func unacknowledged(c net.Conn) int64 {
	with, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return 0
	}
	var n int32
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, // SIOCOUTQ: tcp(7)
			uintptr(unsafe.Pointer(&n))) //nolint:gosec // as ioctl wants it
	})
	if err != nil || errno != 0 {
		return 0
	}
	return int64(n)
}
