//go:build unix

package listen

import "syscall"

// withUmask runs f under another umask, which the whole process then creates files with:
// nothing else may create files meanwhile.
func withUmask(mask int, f func()) {
	defer syscall.Umask(syscall.Umask(mask))
	f()
}
