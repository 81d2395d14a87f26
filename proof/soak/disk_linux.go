package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"unsafe"
)

// diskSize is large enough for all that the callers write, with two damaged journals and the new one of a start that mends, and
// small enough to be filled.
const diskSize = 1536 << 20

// diskInodes bounds how many files there may be on it.
const diskInodes = 4000

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
	err = syscall.Mount("soak", dir, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=%d", diskSize, diskInodes))
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

// fillInodes takes all but so many inodes of the disk.
func (d *disk) fillInodes(leave int) error {
	dir := d.foreign() + "-files"
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	for n := 0; ; n++ {
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(n)), os.O_CREATE|os.O_WRONLY, 0o600)
		if errors.Is(err, syscall.ENOSPC) {
			for n--; n >= 0 && leave > 0; n, leave = n-1, leave-1 {
				if err := os.Remove(filepath.Join(dir, strconv.Itoa(n))); err != nil {
					return err
				}
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
}

func (d *disk) foreign() string { return filepath.Join(d.dir, "foreign") }

// free gives back what fill took.
func (d *disk) free() error {
	err := os.Remove(d.foreign())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(d.foreign()+"-files"))
}

func (d *disk) remove() error {
	if d.mounted {
		if err := syscall.Unmount(d.dir, 0); err != nil {
			return errors.Join(err, syscall.Unmount(d.dir, syscall.MNT_DETACH))
		}
	}
	return os.RemoveAll(d.dir)
}

// allow bounds the descriptors of the process from now on; 0 means as many as at its start.
func (d *daemon) allow(descriptors uint64) error {
	var limit syscall.Rlimit
	err := prlimit(d.Pid(), nil, &limit)
	if limit.Cur = limit.Max; descriptors > 0 {
		limit.Cur = min(descriptors, limit.Max)
	}
	if err == nil {
		err = prlimit(d.Pid(), &limit, nil)
	}
	if errors.Is(err, syscall.ESRCH) { // the process has ended
		return nil
	}
	return err
}

func prlimit(pid int, set, get *syscall.Rlimit) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0) //nolint:gosec // the system call takes two pointers
	if errno != 0 {
		return errno
	}
	return nil
}

// starve leaves the process so many descriptors more than it has.
func (d *daemon) starve(more int) error {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Pid()))
	if errors.Is(err, os.ErrNotExist) {
		return nil // the process has ended
	}
	return errors.Join(err, d.allow(uint64(len(open)+more)))
}
