package journal

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fullDiskPause is how long a table's failure for want of room is held back. Pebble
// tries again at once, and would do nothing else, and log each time.
const fullDiskPause = 500 * time.Millisecond

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// patientFS slows down whoever writes tables to a full disk. Tables are written in the
// background, with no lock held; the log, for which callers wait, is left alone.
type patientFS struct {
	vfs.FS
	pause time.Duration
}

func (p patientFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	if !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	if err != nil {
		return nil, p.holdBack(err)
	}
	return patientFile{f, p}, nil
}

// Unwrap lets Pebble find what is beneath.
func (p patientFS) Unwrap() vfs.FS { return p.FS }

type patientFile struct {
	vfs.File
	fs patientFS
}

func (f patientFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.fs.holdBack(err)
}

func (f patientFile) Sync() error { return f.fs.holdBack(f.File.Sync()) }

func (f patientFile) SyncData() error { return f.fs.holdBack(f.File.SyncData()) }

func (p patientFS) holdBack(err error) error {
	if isDiskFull(err) {
		time.Sleep(p.pause)
	}
	return err
}
