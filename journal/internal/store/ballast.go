package store

import (
	"errors"
	"io/fs"

	"github.com/botwired/botwired/internal/diskfs"
)

// criticalShare divides the reserve. With less than that part free, [Store.Critical] says
// so: a store that cannot write its tables stalls, reads included.
const criticalShare = 4

// ballastSuffix makes the ballast's name of the directory's.
const ballastSuffix = ".ballast"

// ballast is a file beside the store that takes room on the disk. The journal leaves the reserve
// alone, but other programs do not. When they have taken it, the journal gives the ballast up, and
// has room again to record what upstream confirms: flushing goes on, and a restart has room to
// write the log's records into tables (contract 3).
type ballast struct {
	held bool
	told bool // the log says why there is none
}

func (s *Store) ballastName() string { return s.opts.Dir + ballastSuffix }

// ballastSize returns three quarters of the reserve. With the usual reserve, that is room for all
// that Pebble may hold in memory, and for another log.
func (s *Store) ballastSize() int64 { return s.opts.DiskReserve / 4 * 3 }

// Ballast removes the ballast when the free space is critical, and makes it again while twice the
// reserve is free: callers still have room then, and the two never alternate. One goroutine calls
// it now and then.
//
// Errors: those of asking for the free space. If the ballast cannot be made or removed, Ballast
// logs that: the journal works without it.
func (s *Store) Ballast() error {
	if s.opts.DiskReserve <= 0 {
		return nil
	}
	if err := s.Look(); err != nil {
		return err
	}
	switch {
	case s.Critical() && s.ballast.held: // guard 3.8
		s.dropBallast()
	case !s.ballast.held && !s.below(2*s.opts.DiskReserve):
		s.takeBallast()
	}
	return nil
}

// findBallast learns whether an earlier process has left a ballast, and gives it up when
// the free space is critical: to open the store takes room.
func (s *Store) findBallast() error {
	if s.opts.DiskReserve <= 0 {
		return nil
	}
	if err := s.Look(); err != nil {
		return err
	}
	info, err := s.opts.FS.Stat(s.ballastName())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// A ballast of another size is of another reserve, or was cut off: the store makes it
	// anew.
	if s.ballast.held = info.Size() == s.ballastSize(); s.Critical() || !s.ballast.held { // guard 3.9
		s.dropBallast()
	}
	return nil
}

func (s *Store) takeBallast() {
	err := diskfs.WriteFull(s.opts.FS, s.ballastName(), s.ballastSize())
	s.ballast.held = err == nil
	if err != nil && !s.ballast.told {
		s.ballast.told = true
		s.opts.Logger.Warn("no room can be kept for a disk that other programs fill", "file", s.ballastName(), "error", OneLine(err))
	}
	s.forget()
}

func (s *Store) dropBallast() {
	s.ballast.held = false
	if err := s.opts.FS.Remove(s.ballastName()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.opts.Logger.Warn("the room that was kept for a full disk cannot be given back", "file", s.ballastName(), "error", OneLine(err))
		return
	}
	s.forget()
	s.opts.Logger.Warn("the disk is nearly full: the journal uses the room that it kept for this", "bytes", s.ballastSize())
}
