package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

func (j *Journal) open() (err error) {
	version, err := checkFormat(j.opts.FS, j.opts.Dir)
	if err == nil && version == 0 {
		err = checkSwap(j.opts.FS, j.opts.Dir)
	}
	if err != nil {
		return err
	}
	if err := j.opts.FS.MkdirAll(j.opts.Dir, dirMode); err != nil {
		return err
	}
	if j.lock, err = pebble.LockDirectory(j.opts.Dir, j.opts.FS); err != nil {
		return lockError(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.lock.Close())
		}
	}()
	// Once more: until the lock was taken, another process could have been making it.
	if version, err = checkFormat(j.opts.FS, j.opts.Dir); err != nil {
		return err
	}
	keepPrivate(j.opts.FS, j.opts.Dir, j.opts.Logger)
	switch version {
	case formatVersion:
	case 0:
		err = j.create()
	default:
		err = j.migrate(version)
	}
	if err != nil {
		return err
	}
	if err := j.openStore(); err != nil {
		return err
	}
	return j.removeCheckpoints()
}

// openStore opens a store of the present format, after it was looked at for what
// Pebble does not see, and would make worse: to open is to remove logs and tables.
func (j *Journal) openStore() (err error) {
	fsys, dir := j.opts.FS, j.opts.Dir
	if j.keeper.last, err = readMark(fsys, dir); err != nil {
		return err
	}
	if err := j.keeper.last.checkManifest(fsys, dir); err != nil {
		return err
	}
	if err := checkLogs(fsys, dir, j.keeper.last); err != nil {
		return err
	}
	if j.db, err = openPebble(dir, j.storeOptions()); err != nil {
		return err
	}
	j.disk = diskGauge{fs: fsys, dir: dir, reserve: j.opts.DiskReserve}
	if j.totals, err = readTotals(j.db); err == nil {
		err = j.keeper.last.reached(j.totals)
	}
	if err == nil {
		err = j.keepMark(j.totals) // Pebble has made all that it found durable
	}
	if err != nil {
		j.closing.Store(true)
		return errors.Join(storeError(err), j.db.Close())
	}
	return nil
}

// openPebble opens a store that must be there. What Pebble does not understand, it
// sometimes panics about.
func openPebble(dir string, opts *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	opts.ErrorIfNotExists = true
	db, err = pebble.Open(dir, opts)
	return db, storeError(err)
}

// storeError tells apart the damage that Pebble meets, which is [ErrCorrupt], from
// what the operating system says of the disk.
func storeError(err error) error {
	var errno syscall.Errno
	switch {
	case err == nil, errors.Is(err, ErrCorrupt), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, pebble.ErrCorruption), errors.Is(err, fs.ErrNotExist):
	case errors.As(err, &errno):
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, oneLine{err})
}

// refusal is how a journal that cannot be used says so, in one line with what to do.
func refusal(dir string, err error) error {
	if errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("journal %s: %w; nothing was removed: \"botwired recover\" keeps a copy and salvages what it can", dir, oneLine{err})
	}
	return fmt.Errorf("journal %s: %w", dir, err)
}
