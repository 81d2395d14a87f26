package store

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// Create creates the store of a new directory, or of one whose creation was cut off. It closes the
// store, and the caller opens it again. Only a log begun by a second opening shows if its middle is
// damaged or its end is torn. The caller keeps the lock.
func Create(opts Options) error {
	s := newStore(opts)
	if err := s.awaitRoom(); err != nil { // guard 3.36
		return err
	}
	if err := writeFormat(opts.FS, opts.Dir); err != nil {
		return err
	}
	if err := syncAncestors(opts.FS, opts.Dir); err != nil { // guard 1.3
		return err
	}
	db, err := s.create()
	if err != nil {
		return err
	}
	err = s.mustWrite(func() error {
		return db.Set(record.StateKey, record.EncodeTotals(&record.Totals{}), pebble.Sync)
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return finish(opts.FS, opts.Dir)
}

// Open opens a store of the present format in which [Examine] has found no damage. If Open fails, the caller keeps the
// lock.
//
// Errors: [record.ErrCorrupt], those of the file system, and that of Options.AwaitRoom.
func Open(opts Options) (*Store, error) {
	s := newStore(opts)
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) open() (err error) {
	if err := s.removeLeftovers(); err != nil { // guard 3.26
		return err
	}
	if s.marker.last, err = ReadMark(s.opts.FS, s.opts.Dir); err != nil {
		return err
	}
	if err := s.awaitRoom(); err != nil { // guard 3.25
		return err
	}
	if s.db, err = openPebble(s.opts.Dir, s.pebbleOptions()); err != nil {
		return err
	}
	if s.totals, err = ReadTotals(s.db); err == nil {
		err = s.marker.keep(s.totals) // Pebble has made durable all that it found
	}
	if err != nil {
		s.closing.Store(true)
		return errors.Join(Classify(err), s.db.Close())
	}
	s.Look() // so that even the first who ask go by it, and a log that is cut from now on is noticed
	return nil
}

// Check looks for damage that Pebble does not see, and returns the mark. It runs before Pebble opens
// the store: opening removes the logs, and with them everything after the damage. Check changes
// nothing.
func Check(opts Options) (Mark, error) {
	m, err := ReadMark(opts.FS, opts.Dir)
	if err != nil {
		return m, err
	}
	if err := m.check(opts.FS, opts.Dir); err != nil { // guard 4.6
		return m, err
	}
	return m, checkLogs(opts.FS, opts.Dir)
}

// OpenPebble opens Pebble's store in opts.Dir without this package's checks, for an examination or a
// recovery. Pebble writes nothing. The caller closes the result, and keeps the lock.
func OpenPebble(opts Options) (*pebble.DB, error) {
	e := &engine{opts: opts}
	e.closing.Store(true) // the caller judges Pebble's errors
	pebbleOpts := e.pebbleOptions()
	pebbleOpts.ReadOnly = true
	pebbleOpts.EventListener.DataCorruption = func(pebble.DataCorruptionInfo) {}
	return openPebble(opts.Dir, pebbleOpts)
}
