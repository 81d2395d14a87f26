package diskfs

import (
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// allocate gives a part of a file its room on the disk. Where nothing has been written,
// a reader finds zeros.
func allocate(f vfs.File, offset, length int64) error {
	return syscall.Fallocate(int(f.Fd()), 0, offset, length)
}

// Preallocate extends a log ahead of what is written: a sync then has no new length to record, for
// which file systems need a commit of their own. Readers take the zeros behind the last record, or
// the remains of an earlier use of the file, for the end of the log. If Preallocate fails, Pebble
// goes on without it.
func (f *zeroedLog) Preallocate(offset, length int64) error {
	err := allocate(f, offset, length)
	if err == nil {
		f.room = offset + length
	}
	return err
}
