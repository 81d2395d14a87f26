package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
)

const (
	// pebbleFormat is the version of Pebble's own format. It is pinned, because a newer one cannot be
	// undone: an older botwired would call a healthy store damaged. Raising it makes a new format of
	// the journal (contract 21).
	pebbleFormat = pebble.FormatValueSeparation
	// memTableSize bounds what Pebble keeps in memory before it writes a table. Up to four memtables
	// may wait, which absorbs a burst of writes without a stall. It is also the size of a log; five
	// logs are kept for reuse. They must fit on a small disk above its reserve.
	memTableSize    = 8 << 20
	memTablesAtMost = 4
	// cacheSize bounds the blocks of tables in memory. Pebble subtracts the memtables from it. With one
	// memtable in use and one being written to a table, 8 MiB are left for blocks. Without them, each
	// settling would read and unpack some blocks only to find no older copy of the entry. While a third
	// memtable waits, there is no room for blocks.
	cacheSize         = 2*memTableSize + 8<<20
	openFilesAtMost   = 256
	bytesPerSyncTable = 1 << 20
	// filterBits for each key of a table let a reader skip nearly all tables that lack the key. The
	// reader searches 1 in 100 of them in vain.
	filterBits = 10
	// mergeAfter is twice the number of layers of new tables that Pebble leaves alone before it merges
	// them. Most of their records are about to be removed, so merging them early wastes work at the
	// writers' expense. At layersAtMost, writers wait.
	mergeAfter   = 8
	layersAtMost = 24
	// mergeTombstones is the share of a table's blocks that must have many tombstones before Pebble
	// rewrites the table for them alone. Each settling leaves a tombstone for the pending record. With
	// Pebble's default of a tenth, such merges would write as much again as everything else.
	mergeTombstones = 0.5
	// tellFullEvery is the interval between two log lines about a full disk.
	tellFullEvery = time.Minute
)

func (e *engine) pebbleOptions() *pebble.Options {
	opts := &pebble.Options{
		FS: diskfs.New(e.opts.FS, diskfs.Options{
			Pause: e.opts.FullDiskPause, Mergeable: e.mergeable, NewLogs: e.newLogs.Load, OnFailure: e.failInBackground,
			LogSize: memTableSize + memTableSize/10, Newest: &e.log,
		}),
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
	// With more than one compaction at a time, Pebble's own scheduler checks ten times a second if
	// there may be more, even in an idle daemon.
	opts.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	opts.WithFSDefaults()
	return opts
}

// pebbleEvents ends the journal after a failed background write too (contract 2). Otherwise Pebble
// would retry it forever, and writes would stall behind it. On a full disk, the journal waits instead
// (contract 3).
func (e *engine) pebbleEvents() *pebble.EventListener {
	return &pebble.EventListener{
		// After this event, Pebble panics over a mutex that it unlocks twice. That would end the
		// process with the stacks of all goroutines and no reason.
		WALCreated: func(info pebble.WALCreateInfo) {
			if info.Err != nil {
				e.fail(info.Err)
			}
		},
		// guard 4.20
		DataCorruption: e.meetDamage, // by default, Pebble calls Fatalf
		FlushEnd: func(info pebble.FlushInfo) {
			if e.flushed != nil {
				e.flushed(info.Err)
			}
		},
		BackgroundError: func(err error) {
			if e.Damaged(err) {
				err = Classify(err) // Pebble would repeat the merge for ever, and writes would stall behind it
			}
			if diskfs.IsFull(err) && !e.closing.Load() {
				e.tellFull(err)
				return
			}
			e.failInBackground(err)
		},
	}
}

// tellFull logs that a table found no room, at most once in tellFullEvery, because Pebble keeps
// retrying.
func (e *engine) tellFull(err error) {
	now := time.Now()
	if last := e.toldFull.Load(); last == nil || now.Sub(*last) >= tellFullEvery {
		e.toldFull.Store(&now)
		e.opts.Logger.Error("the disk is full", "error", OneLine(err))
	}
}

// pebbleLogger receives Pebble's messages. Pebble reports a failed log write by Fatalf, and goes on to
// acknowledge if that returns, so Fatalf must end the process.
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

// create creates Pebble's store. Pebble panics if it cannot sync the directory when it names a
// manifest; create returns that panic as an error.
func (e *engine) create() (db *pebble.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("opening the store: %v", p)
		}
	}()
	return pebble.Open(e.opts.Dir, e.pebbleOptions())
}

// openPebble opens an existing store. Pebble panics about some data that it does not understand;
// openPebble then returns [record.ErrCorrupt].
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

// Classify turns Pebble's errors, and that of a missing file, into [record.ErrCorrupt]. It returns the
// operating system's other errors, and those of a context, unchanged.
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

// IsDamage reports whether an error says that records, or Pebble's blocks, are damaged.
func IsDamage(err error) bool {
	return errors.Is(err, record.ErrCorrupt) || pebble.IsCorruptionError(err)
}

// IgnoreDamage returns err, or nil if that is damage.
func IgnoreDamage(err error) error {
	if IsDamage(err) {
		return nil
	}
	return err
}

func isErrno(err error) bool { return errors.As(err, new(syscall.Errno)) }
