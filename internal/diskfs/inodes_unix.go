//go:build linux || darwin

package diskfs

import "syscall"

// freeInodes returns how many more files fit on the disk; ok is false if the file system has no limit.
func freeInodes(dir string) (n uint64, ok bool) {
	var st syscall.Statfs_t
	err := syscall.Statfs(dir, &st)
	return st.Ffree, err == nil && st.Files > 0
}
