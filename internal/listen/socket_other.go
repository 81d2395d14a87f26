//go:build !unix || aix || solaris

package listen

import "os"

// lockSocket does nothing: this platform lacks such locks.
func lockSocket(string) (*os.File, error) { return nil, nil }

// withUmask only runs f: this platform has no umask.
func withUmask(_ int, f func()) { f() }
