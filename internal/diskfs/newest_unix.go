//go:build unix

package diskfs

import (
	"os"
	"syscall"
)

// isOther reports whether two descriptions are of two files.
func isOther(a, b os.FileInfo) bool {
	one, ok := a.Sys().(*syscall.Stat_t)
	other, known := b.Sys().(*syscall.Stat_t)
	return ok && known && (one.Dev != other.Dev || one.Ino != other.Ino)
}
