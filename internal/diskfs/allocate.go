package diskfs

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// WriteFull creates a file of the given size in bytes and allocates its disk space. In an in-memory file
// system, which has no disk space, the file is empty. If WriteFull fails, it leaves no file.
func WriteFull(fs vfs.FS, name string, size int64) error {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
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

// fill allocates the space of an empty file, or writes zeros if the system cannot allocate.
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
