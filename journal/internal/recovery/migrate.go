package recovery

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/store"
)

// checkpointOf returns the place where a migration keeps the directory as it was, until the
// migrated one is in use.
func checkpointOf(dir string, version int) string { return fmt.Sprintf("%s.format-%d", dir, version) }

// Migrate brings a directory of an older format to the present one (contract 21). The
// format file is replaced by one rename at the end. Until then the directory is of the
// older format, which the additional files do not disturb, and the next start begins a
// migration that was cut off anew.
//
// Format 2 is format 1 with a mark and with a count of batches in the state record,
// which the next batch adds. Format 3 is format 2 with origins in the records of settled
// copies and rows; a record of format 2 has none. Format 4 is format 3 with receipts, and
// with kinds in the records of dead letters; one of format 3 has none, and was refused.
// Format 5 is format 4 with the contents in sent marks, written_at and two flags in pending
// writes, winners in dead letters, and the times of other hosts' states in origins. Of a
// sent mark of format 4, the contents are not known.
func Migrate(opts store.Options, from int) error {
	opts.Logger.Info("migrating the journal", "dir", opts.Dir, "from", from, "to", store.FormatVersion,
		"checkpoint", checkpointOf(opts.Dir, from))
	m, err := checkpoint(opts, from)
	if err != nil {
		return fmt.Errorf("migrating from format %d: %w", from, err)
	}
	if err := store.Finish(opts.FS, opts.Dir, m); err != nil {
		return err
	}
	opts.Logger.Info("migrated the journal", "dir", opts.Dir, "to", store.FormatVersion, "last_seq", m.Seq)
	return nil
}

// checkpoint verifies the store before anything is changed, copies it aside, and returns its mark.
func checkpoint(opts store.Options, from int) (m store.Mark, err error) {
	if err := examine(opts, from); err != nil { // guard 21.4
		return m, err
	}
	db, err := store.OpenPebble(opts, false)
	if err != nil {
		return m, err
	}
	err = copyAside(opts, db, from) // guard 21.6
	if err == nil {
		totals, readErr := store.ReadTotals(db)
		m.Seq, m.Batches, err = totals.Seq, totals.Batches, readErr
	}
	return m, errors.Join(err, db.Close())
}

// copyAside makes the checkpoint anew: an existing one was cut off, or is of the same store.
func copyAside(opts store.Options, db *pebble.DB, from int) error {
	fsys, to := opts.FS, checkpointOf(opts.Dir, from)
	if err := fsys.RemoveAll(to); err != nil {
		return err
	}
	if err := db.Checkpoint(to, pebble.WithFlushedWAL()); err != nil {
		return err
	}
	if err := vfs.Copy(fsys, fsys.PathJoin(opts.Dir, store.FormatFile), fsys.PathJoin(to, store.FormatFile)); err != nil {
		return err
	}
	return errors.Join(diskfs.SyncDir(fsys, to), diskfs.SyncDir(fsys, fsys.PathDir(to)))
}

// RemoveLeftovers removes the checkpoint of a migration and the files of a recovery that was
// cut off, once the store of the present format is open.
func RemoveLeftovers(opts store.Options) error {
	if err := removeWork(opts.FS, opts.Dir); err != nil {
		return err
	}
	for version := 1; version < store.FormatVersion; version++ {
		old := checkpointOf(opts.Dir, version)
		if _, err := opts.FS.Stat(old); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := opts.FS.RemoveAll(old); err != nil {
			return err
		}
		opts.Logger.Info("removed the checkpoint of a migration", "dir", old)
	}
	return nil
}
