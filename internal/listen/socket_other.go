//go:build !unix || aix || solaris

package listen

import "io"

// lockSocket does nothing: this platform lacks such locks.
func lockSocket(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// withUmask only runs f: this platform has no umask.
func withUmask(_ int, f func()) { f() }
