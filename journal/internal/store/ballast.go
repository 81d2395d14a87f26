package store

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/botwired/botwired/internal/diskfs"
)

// criticalShare is the divisor of the reserve for [Store.Critical]. With less than that part free, a
// store that cannot write its tables stalls, reads included.
const criticalShare = 4

// BallastFile is the ballast's name. It is in the store's directory, which may be a link or a mount point: only
// there is it on the disk of the logs.
const BallastFile = "BALLAST"

// ballast is a file of the store that occupies disk space. The journal does not use up the
// reserve, but other programs may. Then the journal removes the ballast, and has room again to record
// upstream's confirmations: flushing goes on, and a restart can write the log's records into tables
// (contract 3).
type ballast struct {
	mu   sync.Mutex // guards the rest, and is held while room is tried
	held bool
	told bool // the log says why there is no ballast
}

func (s *Store) ballastName() string {
	return s.opts.FS.PathJoin(s.opts.Dir, BallastFile) // guard 3.57
}

func (s *Store) trialName() string { return s.ballastName() + ".new" }

// ballastSize returns three quarters of the reserve. With the usual reserve, that is room for
// everything that Pebble may hold in memory, and for another log.
func (s *Store) ballastSize() int64 { return s.opts.DiskReserve / 4 * 3 }

// Ballast removes the ballast when the free space is critical. It creates the ballast again when twice
// the reserve is free, so that callers still have room, and the ballast does not come and go. One
// goroutine calls it regularly. If Ballast cannot create or remove the ballast, it logs the failure, and
// the journal works on. A ballast that can be created also shows that a quota has room again.
func (s *Store) Ballast() {
	if s.opts.DiskReserve <= 0 {
		return
	}
	s.ballast.mu.Lock()
	defer s.ballast.mu.Unlock()
	s.Look()
	retries := s.retries()
	switch {
	case s.Critical() && s.ballast.held: // guard 3.8
		s.dropBallast()
	case !s.ballast.held && (retries || !s.below(2*s.opts.DiskReserve)):
		s.takeBallast()
	}
	if s.ballast.held && retries { // guard 3.50
		s.believe()
	}
}

// noRoom corrects the gauge: the disk has just refused room, though the system may report some. A table can wait
// for room. A log cannot, so noRoom gives up the ballast for it. The file system calls noRoom.
func (s *Store) noRoom(log bool) {
	s.bound(0, 0)
	if !log {
		return
	}
	s.ballast.mu.Lock()
	defer s.ballast.mu.Unlock()
	if s.ballast.held { // guard 3.51
		s.dropBallast()
	}
}

// try takes n bytes on the disk, and gives them back. The system's figure for the free space lacks a
// user's quota.
func (s *Store) try(n int64) error {
	if err := diskfs.WriteFull(s.opts.FS, s.trialName(), n); err != nil {
		return err
	}
	return s.opts.FS.Remove(s.trialName())
}

// findBallast checks if an earlier process has left a ballast. It removes a ballast of the wrong size.
// It also removes the ballast if the free space is critical, because opening the store takes room.
func (s *Store) findBallast() error {
	if err := s.opts.FS.Remove(s.trialName()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s.opts.DiskReserve <= 0 {
		return nil
	}
	s.Look()
	info, err := s.opts.FS.Stat(s.ballastName())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// A ballast of another size belongs to another reserve, or was cut off. The store makes a new one.
	if s.ballast.held = info.Size() == s.ballastSize(); s.Critical() || !s.ballast.held { // guard 3.9
		s.dropBallast()
	}
	return nil
}

func (s *Store) takeBallast() {
	err := diskfs.WriteFull(s.opts.FS, s.ballastName(), s.ballastSize())
	s.ballast.held = err == nil
	switch {
	case err == nil:
		s.short.Store(false)
	case !diskfs.IsFull(err): // guard 3.55
		s.believe() // it says nothing about a quota
	default:
		if least := s.opts.DiskReserve / criticalShare; s.try(least) == nil {
			s.bound(least, s.ballastSize())
		} else {
			s.bound(0, 0)
		}
	}
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
	s.opts.Logger.Warn("the disk, or this user's quota on it, is nearly full: the journal uses the room that it kept for this", "bytes", s.ballastSize())
}
