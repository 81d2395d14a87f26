//go:build unix

package main

import "syscall"

// withUmask runs f with the process's umask, which new files are createdAt with. Nothing
// else may make files meanwhile.
func withUmask(mask int, f func()) {
	defer syscall.Umask(syscall.Umask(mask))
	f()
}
