//go:build unix

package service

import (
	"errors"
	"net"
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

// sendAlong sends a message with a file descriptor on a connected socket, on which
// net.UnixConn.WriteMsgUnix sends none. The connection's write deadline ends it.
func sendAlong(conn *net.UnixConn, message string, fd uintptr) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(socket uintptr) (done bool) {
		sent = syscall.Sendmsg(int(socket), []byte(message), syscall.UnixRights(int(fd)), nil, 0)
		return !errors.Is(sent, syscall.EAGAIN) && !errors.Is(sent, syscall.EINTR)
	})
	return errors.Join(err, sent)
}
