// Package diskfs sits between Pebble and the disk, and changes how Pebble uses it:
//
//   - On a full disk, tables written from memory go before merged ones, and a table that
//     found no room is retried after a pause. Merged tables never take the last room.
//     Pebble alone would retry at once, and its merges would take the room that writing
//     from memory needs (contract 3).
//   - If a log or a directory cannot be written or synced, the error is reported before
//     Pebble sees it: Pebble panics about some of these where nobody can recover
//     (contract 2).
//   - A log has its full length, and is filled with zeros ahead of its records. A sync
//     then has no new length and no new extent to record.
//   - Opening a file waits while the process has no free descriptor: that is not a
//     failure of the disk.
//   - It knows whether the log that records are written to is still under its name.
//   - A part of a table that the disk cannot read is damage, not a failure of the disk.
package diskfs

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FullDiskPause is the pause before the next attempt, after a table found no room on the disk.
const FullDiskPause = 500 * time.Millisecond

// IsFull reports whether an error says that the disk, or the user's share of it, is full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isFullHere(err) // guard 3.4
}

// IsLocked reports whether an error says that another process has locked a file.
func IsLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || isLockedHere(err)
}

// Options configures the file system view. Its functions may be called on any goroutine.
type Options struct {
	// Pause is [FullDiskPause] except in tests.
	Pause time.Duration
	// Mergeable reports whether the disk has room to merge tables. If it is nil, merging may use all
	// the room.
	Mergeable func() bool
	// NewLogs reports whether each log must be a new file, because old ones hold data that must go. If it
	// is nil, logs reuse files.
	NewLogs func() bool
	// Newest, if not nil, gets to know each log that records are written to.
	Newest *Newest
	// LogSize is how many bytes of a log are allocated before its records are written.
	LogSize int64
	// OnFailure is called with the error of a log or a directory that cannot be written or synced.
	// Pebble's locks are held.
	OnFailure func(error)
}

// New returns a view of fs for Pebble.
func New(fs vfs.FS, opts Options) vfs.FS {
	return diskFS{fs, opts, &turns{pause: opts.Pause, mergeable: opts.Mergeable}, allocate}
}

// flushCategory is Pebble's category for a table that it writes from memory.
const flushCategory = "pebble-memtable-flush"

type diskFS struct {
	vfs.FS
	Options
	turns    *turns
	allocate func(f vfs.File, offset, length int64) error
}

// Create wraps tables, which Pebble writes in the background with no lock held, and logs, which callers
// wait for.
func (d diskFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	fromMemory, table := category == flushCategory, strings.HasSuffix(name, ".sst")
	if table && !d.turns.wait(fromMemory) {
		return nil, syscall.ENOSPC
	}
	f, err := d.FS.Create(name, category)
	switch {
	case table && err != nil:
		return nil, d.turns.note(fromMemory, err)
	case table:
		return pacedTable{f, d.turns, fromMemory}, nil
	case err == nil && strings.HasSuffix(name, ".log"):
		f = d.Newest.is(f, name)
		return &zeroedLog{watchedFile: watchedFile{f, d.OnFailure}, room: d.allocateLog(f)}, nil
	}
	return f, err
}

// ReuseForWrite turns an old log into a new one. The file still contains its old data, unless
// Options.NewLogs demands a new file.
func (d diskFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if d.NewLogs != nil && d.NewLogs() {
		if err := d.Remove(from); err != nil {
			return nil, err
		}
		return d.Create(to, category)
	}
	f, err := d.FS.ReuseForWrite(from, to, category)
	if err == nil {
		f = d.Newest.is(f, to)
		d.allocateLog(f) // an earlier use may not have found the room
	}
	return d.watch(f, err)
}

func (d diskFS) OpenDir(name string) (vfs.File, error) { return d.watch(d.FS.OpenDir(name)) }

func (d diskFS) watch(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return watchedFile{f, d.OnFailure}, nil
}

// Unwrap lets Pebble find the underlying file system.
func (d diskFS) Unwrap() vfs.FS { return d.FS }
