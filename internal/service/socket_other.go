//go:build !unix

package service

import (
	"errors"
	"net"
	"os"
)

// listens fails: no service manager of this platform passes sockets.
func listens(*os.File) error { return errNoListener }

func sendAlong(*net.UnixConn, string, uintptr) error { return errors.ErrUnsupported }
