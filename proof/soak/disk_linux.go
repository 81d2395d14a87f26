package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// diskSize is large enough for all that the callers write, and small enough to be filled.
const diskSize = 256 << 20

// disk is a file system of the daemon's own, which another program can fill.
type disk struct {
	dir     string
	mounted bool // false where this user may not mount one: nobody fills it then
}

func newDisk() (*disk, error) {
	dir, err := os.MkdirTemp("", "botwired-soak-")
	if err != nil {
		return nil, err
	}
	err = syscall.Mount("soak", dir, "tmpfs", 0, "size="+strconv.Itoa(diskSize))
	return &disk{dir, err == nil}, nil
}

// fill takes all but so many bytes of the disk, as another program may. It looks again if the
// daemon was faster and has taken some of the room.
func (d *disk) fill(leave int64) error {
	f, err := os.OpenFile(d.foreign(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	for {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(d.dir, &fs); err != nil {
			return errors.Join(err, f.Close())
		}
		size := int64(fs.Bavail)*fs.Bsize - leave
		if size <= 0 {
			return f.Close()
		}
		err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
		if !errors.Is(err, syscall.ENOSPC) {
			return errors.Join(err, f.Close())
		}
	}
}

func (d *disk) foreign() string { return filepath.Join(d.dir, "foreign") }

// free gives back what fill took.
func (d *disk) free() error {
	if err := os.Remove(d.foreign()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (d *disk) remove() error {
	if d.mounted {
		if err := syscall.Unmount(d.dir, 0); err != nil {
			return errors.Join(err, syscall.Unmount(d.dir, syscall.MNT_DETACH))
		}
	}
	return os.RemoveAll(d.dir)
}
