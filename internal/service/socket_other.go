//go:build !unix

package service

import "os"

// listens returns false: no service manager of this platform passes sockets.
func listens(*os.File) (bool, error) { return false, nil }
