package store

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store/diskfs"
)

var (
	// ErrInUse says that another process has the directory open.
	ErrInUse = errors.New("in use by another process")
	// ErrClosed says that Close was called.
	ErrClosed = errors.New("journal closed")
	// ErrFailed says that the disk failed; the process is about to end.
	ErrFailed = errors.New("journal failed")
	// ErrFormat says that the directory was written by another format version.
	ErrFormat = errors.New("journal format not supported")
)

// Options configures a store.
type Options struct {
	// Dir is the store's directory, and FS the file system that holds it.
	Dir string
	FS  vfs.FS
	// Lock is the lock on Dir, see [LockDir]. The store releases it when it is closed.
	Lock *pebble.Lock
	// DiskReserve is the free space, in bytes, below which [Store.Low] says so.
	DiskReserve int64
	// Readers is the lock under which changes become visible to readers.
	Readers sync.Locker
	// BeforeApply, if not nil, adds to every batch before it is applied, in the order of
	// all updates.
	BeforeApply func(*Tx)
	// Fatal is called once when the disk has failed. It must end the process; if it
	// returns, the store makes nothing durable any more. It is called wherever the
	// failure is met, with locks held, and must not call the store.
	Fatal func(error)
	// Logger receives Pebble's messages. It must not be nil.
	Logger *slog.Logger
	// FullDiskPause is [diskfs.FullDiskPause] but in tests.
	FullDiskPause time.Duration
}

// Store is the durable store. All its methods may be called concurrently.
type Store struct {
	opts   Options
	db     *pebble.DB
	gauge  gauge
	marker marker

	failed  atomic.Bool
	failing sync.Once   // has Fatal called once
	wedged  atomic.Bool // Pebble panicked, and may hold its locks for ever

	// life is held for reading while the store is used: Close waits for that. It is
	// taken before all other locks, and never twice.
	life    sync.RWMutex
	closed  bool        // guarded by life
	closing atomic.Bool // what Pebble complains of from now on does not end the process
	// endError is the first failure of the disk that Pebble met in the background while
	// closing: its Close does not return it.
	endError atomic.Pointer[error]

	// order puts updates in order: its holder is the only one that assigns sequence
	// numbers and applies batches, so that the state record of each batch is true of the
	// store as that batch leaves it. It is taken before Readers and never held during an
	// fsync, nor while Pebble reads for a caller that can wait.
	order  sync.Mutex
	totals record.Totals // guarded by order; counts what gathers too
	tx     Tx            // guarded by order
	// gathering is the group that the next sync makes durable, and syncing the one that
	// a sync is under way for; nil if there is none. Guarded by order.
	gathering, syncing *group
}

// LockDir takes the lock on a directory that exists. Errors: [ErrInUse] and those of the
// file system.
func LockDir(fs vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil && isLocked(err) {
		return nil, ErrInUse
	}
	return lock, err
}

// Acquire begins a use of the store, to be ended by [Store.Release]: the store is not
// closed in between. Errors: [ErrClosed].
func (s *Store) Acquire() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return ErrClosed
	}
	return nil
}

// Release ends a use of the store.
func (s *Store) Release() { s.life.RUnlock() }

// Failed reports whether the disk has failed.
func (s *Store) Failed() bool { return s.failed.Load() }

// Close waits for the calls under way and closes the store. What was made durable is so
// with or without it.
func (s *Store) Close() error {
	s.endMarks()
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.closing.Store(true)
	if s.wedged.Load() {
		return ErrFailed // closing would wait for ever, and the lock must not outlive the store
	}
	s.order.Lock()
	err := s.applyGathered() // changes that nobody waits for
	s.order.Unlock()
	if errors.Is(err, ErrFailed) {
		err = nil // told already
	}
	err = errors.Join(err, s.db.Close())
	if late := s.endError.Load(); late != nil {
		err = errors.Join(err, *late)
	}
	if err != nil && s.failed.Load() {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	if err == nil && !s.failed.Load() {
		err = s.keepMark(s.totals) // all of it is durable now
	}
	return errors.Join(err, s.opts.Lock.Close())
}

// fail records that the disk has failed and ends the process (contract 2). A goroutine
// that meets the next failure waits meanwhile: Pebble may be about to panic over it.
func (s *Store) fail(err error) {
	s.failed.Store(true)
	s.failing.Do(func() {
		if s.opts.Fatal != nil {
			s.opts.Fatal(fmt.Errorf("journal %s: %w", s.opts.Dir, OneLine(err)))
		}
	})
}

// failInBackground ends the journal, unless it is being closed: a table that cannot be
// written then loses nothing, as the log has it all, but the disk has failed and the
// process must not end as if it had not.
func (s *Store) failInBackground(err error) {
	if !s.closing.Load() {
		s.fail(err)
		return
	}
	// Other errors at the end are of compactions that were called off.
	if isErrno(err) && !diskfs.IsFull(err) {
		s.endError.CompareAndSwap(nil, &err)
	}
}

// OneLine is err with its text cut to the first line: Pebble's may go on with stacks and
// listings of directories.
func OneLine(err error) error { return oneLine{err} }

type oneLine struct{ error }

func (e oneLine) Error() string {
	text, _, _ := strings.Cut(e.error.Error(), "\n")
	return text
}

func (e oneLine) Unwrap() error { return e.error }
