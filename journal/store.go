package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

const (
	// memTableSize bounds what Pebble keeps in memory before it writes a table. Four
	// of them may wait, which absorbs a burst of writes without a stall. It is the size of
	// a log too, and as many logs and one more are kept for reuse: they must not take what
	// a small disk has above its reserve.
	memTableSize      = 8 << 20
	memTablesAtMost   = 4
	blockCacheSize    = 16 << 20
	openFilesAtMost   = 256
	bytesPerSyncTable = 1 << 20
	// filterBits for each key of a table spare a reader nearly all tables that lack it: 1
	// in 100 is looked into all the same.
	filterBits = 10
	// mergeAfter is how many layers of new tables, twice over, are let be before they are
	// merged. Most of what is in them is about to be removed: to merge it early is work for
	// nothing, at the expense of those who write. At layersAtMost writers wait.
	mergeAfter   = 8
	layersAtMost = 24
)

func lockError(err error) error {
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "lock held") {
		return ErrInUse
	}
	return err
}

func (j *Journal) storeOptions() *pebble.Options {
	opts := &pebble.Options{
		FS:                          patientFS{privateFS{j.opts.FS}, &turns{pause: j.opts.fullDiskPause}, j.failInBackground},
		Lock:                        j.lock,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: memTablesAtMost,
		MaxOpenFiles:                openFilesAtMost,
		BytesPerSync:                bytesPerSyncTable,
		L0CompactionThreshold:       mergeAfter,
		L0StopWritesThreshold:       layersAtMost,
		CacheSize:                   blockCacheSize,
		Logger:                      storeLogger{j},
		EventListener:               j.pebbleEvents(),
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	opts.CompactionConcurrencyRange = func() (lower, upper int) { return 1, 1 }
	// Of any but one compaction at a time Pebble's own scheduler would have to find out
	// when there may be more, by looking ten times a second, in an idle daemon too.
	opts.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	opts.WithFSDefaults()
	return opts
}

// makeStore makes Pebble's store. Pebble panics when it cannot sync the directory while
// it names a manifest: that is an error like any other of a disk that fails.
func (j *Journal) makeStore() (db *pebble.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("opening the store: %v", p)
		}
	}()
	return pebble.Open(j.opts.Dir, j.storeOptions())
}

// pebbleEvents makes a failed write in the background the end of the journal too
// (contract 2): Pebble would try it again and again, and writes would stall behind
// it. A full disk is waited out (contract 3).
func (j *Journal) pebbleEvents() *pebble.EventListener {
	return &pebble.EventListener{
		// Pebble panics after this with a mutex that it unlocks twice, which ends the
		// process with the stacks of all goroutines and no reason.
		WALCreated: func(info pebble.WALCreateInfo) {
			if info.Err != nil {
				j.fail(info.Err)
			}
		},
		BackgroundError: func(err error) {
			if isDiskFull(err) && !j.closing.Load() {
				j.opts.Logger.Error("the disk is full", "error", oneLine{err})
				return
			}
			j.failInBackground(err)
		},
	}
}

// failInBackground is the end of the journal, or of its end: a table that could not be
// written while the store is being closed loses nothing, as the log has it all, but
// the disk has failed and the process must not end as if it had not.
func (j *Journal) failInBackground(err error) {
	if !j.closing.Load() {
		j.fail(err)
		return
	}
	// What else there is at the end are compactions that were called off.
	if errors.As(err, new(syscall.Errno)) && !isDiskFull(err) {
		j.endError.CompareAndSwap(nil, &err)
	}
}

// storeLogger is Pebble's logger. Pebble reports a failed log write by Fatalf and
// goes on to acknowledge if that returns, so it has to end the process here.
type storeLogger struct{ j *Journal }

func (l storeLogger) Infof(format string, args ...any) {
	l.log(slog.LevelDebug, format, args)
}

func (l storeLogger) Errorf(format string, args ...any) {
	l.log(slog.LevelError, format, args)
}

func (l storeLogger) Fatalf(format string, args ...any) {
	l.j.fail(fmt.Errorf(format, args...))
}

func (l storeLogger) log(level slog.Level, format string, args []any) {
	logger, ctx := l.j.opts.Logger, context.Background()
	if logger.Enabled(ctx, level) {
		logger.Log(ctx, level, "pebble", "message", fmt.Sprintf(format, args...))
	}
}

// get reads one sealed record; ok is false when there is none. decode must not keep
// the body, which is Pebble's.
func get(r pebble.Reader, key []byte, decode func(body []byte) error) (ok bool, err error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	body, err := unseal(key, value)
	if err == nil {
		err = decode(body)
	}
	if closeErr := closer.Close(); err == nil {
		err = closeErr
	}
	return err == nil, err
}

// spare reports whether err is damage to a copy of what upstream holds, and logs it: such
// a copy is as good as none, as upstream can be asked for another (contract 4). Any other
// error is returned.
func (j *Journal) spare(err error) (damaged bool, _ error) {
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, pebble.ErrCorruption) {
		return false, err
	}
	j.opts.Logger.Error("a damaged copy is given up", "error", oneLine{err})
	return true, nil
}

func readTotals(r pebble.Reader) (t totals, err error) {
	ok, err := get(r, stateKey, func(body []byte) (err error) {
		t, err = decodeTotals(body)
		return err
	})
	if err == nil && !ok {
		err = fmt.Errorf("%w: the state record is missing", ErrCorrupt)
	}
	return t, err
}
