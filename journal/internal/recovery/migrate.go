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

// checkpointOf returns the path where a migration keeps a copy of the old directory until the migrated
// directory is in use.
func checkpointOf(dir string, version int) string { return fmt.Sprintf("%s.format-%d", dir, version) }

// Migrate brings a directory of an older format to the present one (contract 21). The last step
// replaces the format file by one rename. Until then the directory is of the older format, to which the
// additional files do no harm. If a migration is cut off, the next start begins it again.
//
// Format 2 adds to format 1 a mark, and to the state record a count of batches, which the next batch
// writes. Format 3 adds origins to the records of settled copies and rows; a record of format 2 has
// none. Format 4 adds receipts, and kinds to the records of dead letters; a dead letter of format 3 has
// no kind and counts as refused. Format 5 adds the contents to sent marks, written_at and two flags to
// pending writes, winners to dead letters, and the times of other hosts' states to origins. The
// contents of a sent mark of format 4 are unknown.
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

// copyAside makes the checkpoint. It replaces an existing one, which was cut off or is of the same
// store.
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

// RemoveLeftovers removes the checkpoints of migrations and the files of a recovery that was cut off.
// The caller has opened the store of the present format.
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
