package diskfs

import (
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// allocate allocates disk space for a part of a file. Unwritten parts read as zeros.
func allocate(f vfs.File, offset, length int64) error {
	return uninterrupted(func() error { return syscall.Fallocate(int(f.Fd()), 0, offset, length) })
}
