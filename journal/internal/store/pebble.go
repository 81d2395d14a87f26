package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
)

const (
	// pebbleFormat is the version of Pebble's own format. It is pinned: a newer one can
	// not be taken back, and would make an older botwired call a healthy store damaged.
	// Raising it is a new format of the journal's (contract 21).
	pebbleFormat = pebble.FormatValueSeparation
	// memTableSize bounds what Pebble keeps in memory before it writes a table. Four
	// of them may wait, which absorbs a burst of writes without a stall. It is the size of
	// a log too, and as many logs and one more are kept for reuse: they must not take what
	// a small disk has above its reserve.
	memTableSize    = 8 << 20
	memTablesAtMost = 4
	// cacheSize bounds the blocks of tables in memory. Pebble takes the memtables off it: beside
	// the one in use and the one being written to a table, 8 MiB are left. Without room for
	// blocks, each settling would read and unpack some, only to find that the entry has no older
	// copy. There is none while a third memtable waits.
	cacheSize         = 2*memTableSize + 8<<20
	openFilesAtMost   = 256
	bytesPerSyncTable = 1 << 20
	// filterBits for each key of a table let a reader skip nearly all tables that lack
	// the key: it looks into 1 in 100 in vain.
	filterBits = 10
	// mergeAfter is how many layers of new tables, twice over, Pebble leaves alone before
	// it merges them. Most of their records are about to be removed: to merge them early
	// is work for nothing, at the expense of writers. At layersAtMost writers wait.
	mergeAfter   = 8
	layersAtMost = 24
	// mergeTombstones is the share of a table's blocks that must hold many tombstones before
	// Pebble rewrites it for them alone. Each settling leaves one for the pending record: by
	// Pebble's default of a tenth, such merges would write as much again as all else.
	mergeTombstones = 0.5
	// tellFullEvery is the interval between two log lines about a full disk.
	tellFullEvery = time.Minute
)

func isLocked(err error) bool {
	return diskfs.IsLocked(err) || strings.Contains(err.Error(), "lock held")
}

func (e *engine) pebbleOptions() *pebble.Options {
	opts := &pebble.Options{
		FS:                          diskfs.New(e.opts.FS, diskfs.Options{Pause: e.opts.FullDiskPause, Mergeable: e.mergeable, OnFailure: e.failInBackground}),
		Lock:                        e.opts.Lock,
		FormatMajorVersion:          pebbleFormat,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: memTablesAtMost,
		MaxOpenFiles:                openFilesAtMost,
		BytesPerSync:                bytesPerSyncTable,
		L0CompactionThreshold:       mergeAfter,
		L0StopWritesThreshold:       layersAtMost,
		CacheSize:                   cacheSize,
		Logger:                      pebbleLogger{e},
		EventListener:               e.pebbleEvents(),
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	opts.Experimental.TombstoneDenseCompactionThreshold = mergeTombstones
	opts.CompactionConcurrencyRange = func() (lower, upper int) { return 1, 1 }
	// With more than one compaction at a time, Pebble's own scheduler looks ten times a
	// second whether there may be more, in an idle daemon too.
	opts.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	opts.WithFSDefaults()
	return opts
}

// pebbleEvents makes a failed write in the background the end of the journal too
// (contract 2): Pebble would try it again and again, and writes would stall behind
// it. A full disk is waited out (contract 3).
func (e *engine) pebbleEvents() *pebble.EventListener {
	return &pebble.EventListener{
		// Pebble panics after this with a mutex that it unlocks twice, which ends the
		// process with the stacks of all goroutines and no reason.
		WALCreated: func(info pebble.WALCreateInfo) {
			if info.Err != nil {
				e.fail(info.Err)
			}
		},
		// guard 4.20
		DataCorruption: e.meetDamage, // by default, Pebble calls Fatalf
		BackgroundError: func(err error) {
			if IsDamage(err) {
				return // meetDamage has noted it, and nothing was to be written
			}
			if diskfs.IsFull(err) && !e.closing.Load() {
				e.tellFull(err)
				return
			}
			e.failInBackground(err)
		},
	}
}

// tellFull logs that a table found no room, once in tellFullEvery: Pebble tries again and
// again.
func (e *engine) tellFull(err error) {
	now := time.Now()
	if last := e.toldFull.Load(); last == nil || now.Sub(*last) >= tellFullEvery {
		e.toldFull.Store(&now)
		e.opts.Logger.Error("the disk is full", "error", OneLine(err))
	}
}

// pebbleLogger receives Pebble's messages. Pebble reports a failed log write by Fatalf, and goes on
// to acknowledge if that returns, so Fatalf has to end the process.
type pebbleLogger struct{ e *engine }

func (l pebbleLogger) Infof(format string, args ...any) { l.log(slog.LevelDebug, format, args) }

func (l pebbleLogger) Errorf(format string, args ...any) { l.log(slog.LevelError, format, args) }

func (l pebbleLogger) Fatalf(format string, args ...any) { l.e.fail(fmt.Errorf(format, args...)) }

func (l pebbleLogger) log(level slog.Level, format string, args []any) {
	logger, ctx := l.e.opts.Logger, context.Background()
	if logger.Enabled(ctx, level) {
		logger.Log(ctx, level, "pebble", "message", fmt.Sprintf(format, args...))
	}
}

// create makes Pebble's store. Pebble panics when it cannot sync the directory while
// it names a manifest: that is an error like any other of a disk that fails.
func (e *engine) create() (db *pebble.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("opening the store: %v", p)
		}
	}()
	return pebble.Open(e.opts.Dir, e.pebbleOptions())
}

// openPebble opens a store that must be there. Pebble panics about some of what it does
// not understand.
func openPebble(dir string, opts *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", record.ErrCorrupt, p)
		}
	}()
	opts.ErrorIfNotExists = true
	db, err = pebble.Open(dir, opts)
	return db, Classify(err)
}

// Classify turns damage that Pebble reports into [record.ErrCorrupt], and returns the operating
// system's errors as they are.
func Classify(err error) error {
	switch {
	case err == nil, errors.Is(err, record.ErrCorrupt), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case IsDamage(err), errors.Is(err, fs.ErrNotExist):
	case isErrno(err):
		return err
	}
	return fmt.Errorf("%w: %w", record.ErrCorrupt, OneLine(err))
}

// IsDamage reports whether an error says that records, or Pebble's blocks, are not as they
// were written.
func IsDamage(err error) bool {
	return errors.Is(err, record.ErrCorrupt) || pebble.IsCorruptionError(err)
}

func isErrno(err error) bool { return errors.As(err, new(syscall.Errno)) }
