package store

import (
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
)

// openSlack is the room, in bytes, that opening a store takes on top of its tables, for the manifest
// and Pebble's other files.
const openSlack = 1 << 20

// trialFile takes room for a moment, to find out if there is any.
const trialFile = "ROOM"

// awaitRoom waits until the disk has room to create or open the store. Pebble first writes the logs'
// records into tables, and would wait for room forever without a message.
func (s *Store) awaitRoom() error {
	return AwaitRoom(s.opts, func() (int64, error) { return roomToOpen(s.opts.FS, s.opts.Dir) })
}

// AwaitRoom waits until the disk has as many free bytes as are needed. Without Options.AwaitRoom, it does nothing.
func AwaitRoom(opts Options, needs func() (int64, error)) error {
	for opts.AwaitRoom != nil {
		usage, err := opts.FS.GetDiskUsage(opts.Dir)
		if errors.Is(err, vfs.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		needed, err := needs()
		if err != nil {
			return err
		}
		if usage.AvailBytes >= uint64(needed) && !diskfs.IsFull(try(opts, needed)) { // guard 3.52
			needed = 0
		}
		if err := opts.AwaitRoom(needed); err != nil || needed == 0 {
			return err
		}
	}
	return nil
}

// try takes n bytes on the disk of the logs, and gives them back. The system's figure for the free space may lack
// a user's quota.
func try(opts Options, n int64) error {
	name := opts.FS.PathJoin(opts.Dir, trialFile)
	if err := diskfs.WriteFull(opts.FS, name, n); err != nil {
		return err
	}
	return opts.FS.Remove(name)
}

// removeLeftovers removes what a process that was killed in a trial has left, the room that earlier versions
// kept for a full disk, the table of a repair by them that was cut off, and the word of damage that is no more.
func (s *Store) removeLeftovers() error {
	for _, name := range []string{trialFile, damageFile, "BALLAST", "BALLAST.new", "repair.new"} {
		if err := s.opts.FS.Remove(s.opts.FS.PathJoin(s.opts.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// roomToOpen returns how many bytes must be free to open a store. A log's file is longer than its records.
func roomToOpen(fsys vfs.FS, dir string) (needed int64, err error) {
	logs, err := listLogs(fsys, dir)
	if err != nil {
		return 0, err
	}
	live, err := readLiveLogs(fsys, dir)
	if err != nil {
		return 0, err
	}
	for _, log := range logs {
		if log.number < live.first {
			continue
		}
		n, err := sizeOfRecords(fsys, fsys.PathJoin(dir, log.name), log)
		if err != nil {
			return 0, err
		}
		needed += n
	}
	// Tables also have an index and filters.
	return needed + needed/4 + openSlack, nil
}

// sizeOfRecords counts up to the end of the log or to damage; opening judges the damage.
func sizeOfRecords(fsys vfs.FS, path string, log logFile) (n int64, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return 0, err
	}
	_, _ = ReadLog(f, log.number, func(repr []byte) error {
		n += int64(len(repr))
		return nil
	})
	return n, f.Close()
}
