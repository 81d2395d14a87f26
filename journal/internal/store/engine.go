package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/internal/diskfs"
)

// engine runs Pebble, and ends the process when the disk fails.
type engine struct {
	opts      Options
	db        *pebble.DB
	mergeable func() bool // reports whether there is room to merge tables; nil means always
	flushed   func(error) // called after each attempt to write a table from memory; may be nil
	log       diskfs.Newest

	damage   damage
	failed   atomic.Bool
	failing  sync.Once   // calls Fatal once
	panicked atomic.Bool // Pebble has panicked, and may hold its locks forever
	closing  atomic.Bool // Pebble's errors no longer end the process
	newLogs  atomic.Bool // no log reuses an old file
	// endError is the first disk failure in Pebble's background work during Close. Pebble's own Close
	// does not return it.
	endError atomic.Pointer[error]
	toldFull atomic.Pointer[time.Time] // when the log last said that the disk is full
}

// Failed reports whether the disk has failed.
func (e *engine) Failed() bool { return e.failed.Load() }

// fail records that the disk has failed and ends the process (contract 2). A goroutine with a further
// failure waits meanwhile, because Pebble may be about to panic over it.
func (e *engine) fail(err error) {
	e.failed.Store(true)
	e.failing.Do(func() { // guard 2.3
		if e.opts.Fatal != nil {
			e.opts.Fatal(fmt.Errorf("journal %s: %w", e.opts.Dir, OneLine(err)))
		}
	})
}

// failInBackground ends the journal. During Close it only keeps the error, because the log has all
// records of a table that cannot be written. But Close must not succeed as if the disk had not failed.
func (e *engine) failInBackground(err error) {
	if !e.closing.Load() {
		e.fail(err) // guard 2.6
		return
	}
	// Other errors during Close are from cancelled compactions.
	if isErrno(err) && !diskfs.IsFull(err) {
		e.endError.CompareAndSwap(nil, &err)
	}
}

// applyBatch applies a batch to Pebble. The caller waits for a synced batch and closes it. Otherwise
// applyBatch closes it, and the next sync makes it durable. The caller holds order.
func (e *engine) applyBatch(batch *pebble.Batch, how *pebble.WriteOptions) error {
	return e.mustWrite(func() error {
		if how.Sync {
			return e.db.ApplyNoSyncWait(batch, how)
		}
		return errors.Join(e.db.Apply(batch, how), batch.Close())
	})
}

// mustWrite ends the journal if Pebble refuses a write with an error, a Fatalf or a panic. The caller
// holds order, so no other write is behind it in Pebble's commit.
func (e *engine) mustWrite(write func() error) error {
	if e.failed.Load() { // guard 2.5
		return ErrFailed
	}
	if err := e.failOnPanic(write); err != nil {
		e.fail(err)
	}
	if e.failed.Load() {
		return ErrFailed
	}
	return nil
}

// failOnPanic ends the journal if Pebble panics. Pebble does so when it cannot continue with a log.
// net/http would swallow the panic while Pebble keeps its locks, and all later writes would hang.
func (e *engine) failOnPanic(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.panicked.Store(true)
			e.fail(fmt.Errorf("writing to the store: %v", p))
			err = ErrFailed
		}
	}()
	return call()
}

// wait waits until a batch in sync is durable. If the sync fails, wait ends the journal.
func (e *engine) wait(batch *pebble.Batch) error {
	if err := batch.SyncWait(); err != nil {
		e.fail(err)
		return ErrFailed
	}
	if e.failed.Load() {
		return ErrFailed // guard 2.4
	}
	return batch.Close()
}

// closePebble closes Pebble, and returns every disk failure met meanwhile.
func (e *engine) closePebble() error {
	err := e.db.Close()
	if late := e.endError.Load(); late != nil {
		err = errors.Join(err, *late)
	}
	if err != nil && e.failed.Load() {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return err
}

// OneLine returns err with its text cut to the first line. Pebble's errors may continue with stacks and
// directory listings.
func OneLine(err error) error { return oneLine{err} }

type oneLine struct{ error }

func (e oneLine) Error() string {
	text, _, _ := strings.Cut(e.error.Error(), "\n")
	return text
}

func (e oneLine) Unwrap() error { return e.error }
