package diskfs

import (
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// allocate allocates disk space for a part of a file. Unwritten parts read as zeros.
func allocate(f vfs.File, offset, length int64) error {
	return syscall.Fallocate(int(f.Fd()), 0, offset, length)
}

// Preallocate extends a log ahead of its records. A sync then has no new length to record, for which
// file systems need a separate commit. Readers take the zeros after the last record, or the remains of
// an earlier use of the file, for the end of the log. If Preallocate fails, Pebble goes on without it.
func (f *zeroedLog) Preallocate(offset, length int64) error {
	err := allocate(f, offset, length)
	if err == nil {
		f.room = offset + length
	}
	return err
}
