package diskfs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The pauses between attempts to open a file while no descriptor is free.
const (
	firstOpenPause = 5 * time.Millisecond
	lastOpenPause  = time.Second
)

// Patient returns a view of fs that waits while the process or the system has no free file descriptor. It also
// waits, but not for ever, to make a file other than a table while the disk has no free inode. Such an error
// says nothing about what was written, so it must not end the journal (contract 2). A caller that waits has
// acknowledged nothing. All other errors are returned at once. logger receives one message for each shortage.
func Patient(fs vfs.FS, logger *slog.Logger) vfs.FS {
	return patientFS{fs, &shortage{logger: logger}}
}

type patientFS struct {
	vfs.FS
	*shortage
}

// Unwrap lets Pebble find the underlying file system.
func (p patientFS) Unwrap() vfs.FS { return p.FS }

func (p patientFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	began := time.Now()
	return wait(p.shortage, func() (vfs.File, error) {
		f, err := p.FS.Create(name, category)
		if IsFull(err) && time.Since(began) < inodePatience && !strings.HasSuffix(name, tableSuffix) && p.hasNoInode(p.PathDir(name)) { // guard 3.47
			err = fmt.Errorf("%w: %w", errNoInode, err)
		}
		return f, err
	})
}

const (
	// inodePatience bounds how long a file waits for an inode: it would hold up the end of the process.
	inodePatience = 30 * time.Second
	// tableSuffix is that of a table, which waits for room as on a full disk: see [New].
	tableSuffix = ".sst"
)

// fewInodes is the number of free inodes below which a file that cannot be made waits: others make files,
// too, before they are counted.
const fewInodes = 16

func (p patientFS) hasNoInode(dir string) bool {
	n, ok := freeInodes(dir)
	return ok && n < fewInodes && vfs.Root(p.FS) == vfs.Default
}

var errNoInode = errors.New("no inode is free")

func (p patientFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return wait(p.shortage, func() (vfs.File, error) { return p.FS.Open(name, opts...) })
}

func (p patientFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return wait(p.shortage, func() (vfs.File, error) { return p.FS.OpenReadWrite(name, category, opts...) })
}

func (p patientFS) OpenDir(name string) (vfs.File, error) {
	return wait(p.shortage, func() (vfs.File, error) { return p.FS.OpenDir(name) })
}

// ReuseForWrite renames the file before it opens it. After a first attempt, the file already has its
// new name.
func (p patientFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.ReuseForWrite(from, to, category)
	if !noDescriptor(err) {
		return f, err
	}
	return p.OpenReadWrite(to, category)
}

func (p patientFS) Lock(name string) (io.Closer, error) {
	return wait(p.shortage, func() (io.Closer, error) { return p.FS.Lock(name) })
}

func (p patientFS) List(dir string) ([]string, error) {
	return wait(p.shortage, func() ([]string, error) { return p.FS.List(dir) })
}

// roomOfInode is the room, in bytes, for which a free inode stands: about the size of a file of the store.
const roomOfInode = 1 << 20

// GetDiskUsage counts a disk that has hardly a free inode as full.
func (p patientFS) GetDiskUsage(dir string) (usage vfs.DiskUsage, err error) {
	err = uninterrupted(func() (err error) { usage, err = p.FS.GetDiskUsage(dir); return err })
	if n, ok := freeInodes(dir); ok && vfs.Root(p.FS) == vfs.Default && n < 1<<32 {
		usage.AvailBytes = min(usage.AvailBytes, n*roomOfInode) // guard 3.46
	}
	return usage, err
}

// shortage is a time without free descriptors or inodes.
type shortage struct {
	logger *slog.Logger
	said   atomic.Bool // logged since the last file that could be opened
}

// wait calls open until it has what is short.
func wait[T any](s *shortage, open func() (T, error)) (T, error) {
	for pause := firstOpenPause; ; pause = min(2*pause, lastOpenPause) {
		opened, err := open()
		what := "no file descriptor is free: the journal waits for one, and so do writes; raise the limit of open files (ulimit -n)"
		switch {
		case errors.Is(err, errNoInode):
			what = "the disk has no free inode: the journal waits for one, and so do writes; remove some files"
		case !noDescriptor(err):
			s.said.Store(false)
			return opened, err
		}
		if !s.said.Swap(true) {
			s.logger.Error(what, "error", err)
		}
		time.Sleep(pause)
	}
}

// noDescriptor reports whether an error says that the process or the system has reached its limit of
// open files.
func noDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) // guard 2.9
}

// uninterrupted calls f again if a signal has interrupted it: some file systems report that, and Go's runtime sends
// itself signals.
func uninterrupted(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) { // guard 3.56
			return err
		}
	}
}
