//go:build !unix

package listen

// withUmask just runs f: this platform has no umask.
func withUmask(_ int, f func()) { f() }
