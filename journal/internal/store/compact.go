package store

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal/internal/record"
)

// Usage returns how many bytes the tables of the records under a prefix take on disk. It excludes
// records that are still in memory.
func (s *Store) Usage(prefix string) (int64, error) {
	n, err := s.db.EstimateDiskUsage(bounds(prefix))
	return int64(n), err
}

// Space returns how many bytes the store's files take, and how many are free on their disk for this
// user. free is negative if the file system cannot tell.
func Space(s *Store) (used, free int64, err error) {
	used = int64(s.db.Metrics().DiskSpaceUsage())
	free, err = s.measure()
	if errors.Is(err, vfs.ErrUnsupported) {
		return used, -1, nil
	}
	return used, max(0, free), err
}

// InMemory returns how many bytes of records are not in tables yet. It measures the log, because
// Pebble's size of a memtable is the reserved space and does not shrink.
func (s *Store) InMemory() int64 { return int64(s.db.Metrics().WAL.Size) }

// errWaits refuses to write more from memory to tables while some of it waits for room. Pebble would make
// another log and another memtable for each attempt, and in the end hold up all writes.
var errWaits = fmt.Errorf("tables wait for room on the disk: %w", syscall.ENOSPC)

// Flush writes the records in memory to tables. On a full disk, this may take until ctx ends, or fail at once.
func (s *Store) Flush(ctx context.Context) error {
	if s.refused.Load() { // guard 3.51
		return errWaits
	}
	return s.flush(ctx)
}

func (s *Store) flush(ctx context.Context) error {
	var flushed <-chan struct{}
	if err := s.failOnPanic(func() (err error) { flushed, err = s.db.AsyncFlush(); return err }); err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Compact frees the space of records removed under a prefix.
func (s *Store) Compact(ctx context.Context, prefix string) error {
	from, to := bounds(prefix)
	return s.compactSpan(ctx, from, to)
}

func (s *Store) compactSpan(ctx context.Context, from, to []byte) error {
	if s.refused.Load() { // guard 3.54
		return errWaits
	}
	return s.failOnPanic(func() error { return s.db.Compact(ctx, from, to, false) })
}

func bounds(prefix string) (from, to []byte) {
	return []byte(prefix), record.After([]byte(prefix))
}
