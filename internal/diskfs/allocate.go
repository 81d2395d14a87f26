package diskfs

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// WriteFull makes a file of the given size in bytes that takes that much room on the disk.
// Only its owner may read it. A file system in memory has no room to take: the file is empty
// there. When WriteFull fails, it leaves no file.
func WriteFull(fs vfs.FS, name string, size int64) error {
	f, err := CreatePrivate(fs, name)
	if err != nil {
		return err
	}
	if f.Fd() != vfs.InvalidFd {
		err = fill(f, size)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		err = errors.Join(err, fs.Remove(name))
	}
	return err
}

// fill allocates the room of an empty file, or writes zeros where the system cannot
// allocate.
func fill(f vfs.File, size int64) error {
	err := allocate(f, 0, size)
	if errors.Is(err, errors.ErrUnsupported) {
		return writeZeros(f, size)
	}
	return err
}

func writeZeros(f vfs.File, size int64) error {
	for at := int64(0); at < size; at += zeroAhead {
		if _, err := f.WriteAt(zeros[:min(zeroAhead, size-at)], at); err != nil {
			return err
		}
	}
	return nil
}
