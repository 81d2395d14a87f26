package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
)

var (
	// ErrInUse says that another process has the directory open.
	ErrInUse = errors.New("in use by another process")
	// ErrClosed says that Close was called.
	ErrClosed = errors.New("journal closed")
	// ErrFailed says that the disk failed; the process is about to end.
	ErrFailed = errors.New("journal failed")
	// ErrFormat says that this version of botwired cannot read the directory's format.
	ErrFormat = errors.New("journal format not supported")
	// ErrNoFormat is the [ErrFormat] of a store without a readable version.
	ErrNoFormat = fmt.Errorf("%w", ErrFormat)
)

// Options configures a store.
type Options struct {
	// Dir is the store's directory, and FS the file system that holds it.
	Dir string
	FS  vfs.FS
	// Lock is the lock on Dir, see [LockDir]. The store releases it when it is closed.
	Lock *pebble.Lock
	// DiskReserve is the free space, in bytes, below which [Store.Low] returns true.
	DiskReserve int64
	// AwaitRoom, if not nil, is called while fewer bytes are free than opening the store needs, and
	// with 0 as soon as there are enough. When it returns nil, [Open] checks again or goes on; its
	// error ends Open.
	AwaitRoom func(needed int64) error
	// Readers is the lock under which changes become visible to readers.
	Readers sync.Locker
	// Fatal is called once, when the disk has failed. It must end the process; if it returns, the store
	// makes nothing more durable. It is called with locks held, and must not call the store.
	Fatal func(error)
	// Logger receives Pebble's messages. It must not be nil.
	Logger *slog.Logger
	// FullDiskPause is [diskfs.FullDiskPause] except in tests.
	FullDiskPause time.Duration
}

// Store is the durable store. All its methods may be called concurrently.
type Store struct {
	*engine
	*pipeline
	gauge
	marker marker

	// life is read-locked while the store is in use, and Close waits for that. It is taken before all
	// other locks, and never twice.
	life   sync.RWMutex
	closed bool // guarded by life

	// Removals counts the changes that have removed versions of entries, from 1 on. It changes in the order of all changes.
	Removals atomic.Int64
}

func newStore(opts Options) *Store {
	e := &engine{opts: opts}
	s := &Store{engine: e, pipeline: &pipeline{engine: e, readers: opts.Readers}}
	s.gauge = gauge{fs: opts.FS, dir: opts.Dir, reserve: opts.DiskReserve, epoch: time.Now(), looked: s.findLog}
	e.mergeable, e.flushed = s.gauge.mergeable, s.gauge.flushed
	s.marker.store = s
	s.Removals.Store(1)
	s.applied = s.marker.soon
	return s
}

// rescueTime bounds how long a store whose log is gone writes its records to a table before it ends.
const rescueTime = 700 * time.Millisecond

// findLog ends the journal if another program has removed, renamed or cut the log: what goes into it is lost when the process
// ends. From here on nothing is acknowledged into it. The acknowledged records are still in memory, so
// findLog writes them to a table first.
func (s *Store) findLog() {
	name, lost := s.log.Lost(s.opts.FS)
	if !lost || s.closing.Load() || s.failed.Swap(true) { // guard 2.13
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rescueTime)
	defer cancel()
	kept := "what was in it is safe in a table"
	if err := s.flush(ctx); err != nil { // guard 2.14
		kept = "what was in it may be lost"
	}
	s.fail(fmt.Errorf("another program has removed, renamed or cut the log %s, and %s", s.opts.FS.PathBase(name), kept))
}

// LockDir takes the lock on an existing directory. Errors: [ErrInUse] and those of the file system.
func LockDir(fs vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil && (diskfs.IsLocked(err) || strings.Contains(err.Error(), "lock held")) {
		return nil, ErrInUse
	}
	return lock, err
}

// Acquire begins a use of the store, which [Store.Release] ends. The store is not closed in between.
// Errors: [ErrClosed].
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

// Use calls do while the store is open. Errors: do's, and [ErrClosed].
func (s *Store) Use(do func() error) error {
	if err := s.Acquire(); err != nil {
		return err
	}
	defer s.Release()
	return do()
}

// Close waits for the calls in flight and closes the store. Durable updates stay durable with or
// without it.
func (s *Store) Close() error {
	s.marker.end()
	s.findLog() // Pebble leaves what is in memory to the log
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.closing.Store(true)
	if s.panicked.Load() {
		return ErrFailed // closing would wait forever, and the lock must not outlive the store
	}
	s.order.Lock()
	_ = s.applyGathered() // what no caller waits for; a failure has already ended the journal
	s.order.Unlock()
	err := s.closePebble()
	if err == nil && !s.failed.Load() {
		err = s.marker.keep(s.totals) // all of it is durable now
	}
	return errors.Join(err, s.opts.Lock.Close())
}

// MarkNow makes all applied changes durable, and then writes the mark. A timer also does this within a
// second after a batch.
func (s *Store) MarkNow() { s.marker.mark() }
