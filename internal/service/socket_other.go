//go:build !unix

package service

import "os"

// listens fails: no service manager of this platform passes sockets.
func listens(*os.File) error { return errNoListener }
