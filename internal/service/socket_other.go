//go:build !unix

package service

import "os"

// listens returns false: this platform has no service manager that passes sockets.
func listens(*os.File) (bool, error) { return false, nil }
