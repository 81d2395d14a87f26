package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// checkpointOf returns the path where a migration keeps a copy of the old directory until the migrated
// directory is in use.
func checkpointOf(dir string) string { return fmt.Sprintf("%s.format-%d", dir, store.OldestFormat) }

// Migrate brings a directory of format 5 to the present one (contract 21), which keeps each value in a
// version. The last step replaces the format file by one rename. Until then the directory is of the older
// format, to which the additional records and files do no harm. If a migration is cut off, the next start
// begins it again.
func Migrate(opts store.Options) error {
	opts.Logger.Info("migrating the journal", "dir", opts.Dir, "from", store.OldestFormat, "to", store.FormatVersion,
		"checkpoint", checkpointOf(opts.Dir))
	m, err := checkpoint(opts)
	if err != nil {
		return fmt.Errorf("migrating from format %d: %w", store.OldestFormat, err)
	}
	if err := store.Finish(opts.FS, opts.Dir, m); err != nil {
		return err
	}
	opts.Logger.Info("migrated the journal", "dir", opts.Dir, "to", store.FormatVersion, "last_seq", m.Seq)
	return nil
}

// checkpoint verifies the store before anything is changed, copies it aside, and returns its mark.
func checkpoint(opts store.Options) (m store.Mark, err error) {
	if err := examine(opts, store.OldestFormat); err != nil { // guard 21.4
		return m, err
	}
	if err := awaitRoom(opts); err != nil { // guard 3.45
		return m, err
	}
	db, err := store.OpenPebble(opts, false)
	if err != nil {
		return m, err
	}
	err = copyAside(opts, db) // guard 21.6
	if err == nil {
		err = addVersions(db)
	}
	if err == nil {
		totals, readErr := store.ReadTotals(db)
		m.Seq, m.Batches, err = totals.Seq, totals.Batches, readErr
	}
	return m, errors.Join(err, db.Close())
}

// awaitRoom waits for the room that the versions of the pending writes take, in logs and in tables.
func awaitRoom(opts store.Options) error {
	totals, err := store.TotalsOf(opts)
	if err != nil {
		return err
	}
	return store.AwaitRoom(opts, 2*totals.PendingBytes)
}

// copyAside makes the checkpoint. It replaces an existing one, which was cut off or is of the same
// store.
func copyAside(opts store.Options, db *pebble.DB) error {
	fsys, to := opts.FS, checkpointOf(opts.Dir)
	if err := fsys.RemoveAll(to); err != nil {
		return err
	}
	if err := db.Checkpoint(to, pebble.WithFlushedWAL()); err != nil {
		return err
	}
	for _, name := range []string{store.MarkFile, store.FormatFile} {
		if err := vfs.Copy(fsys, fsys.PathJoin(opts.Dir, name), fsys.PathJoin(to, name)); err != nil {
			return err
		}
	}
	return errors.Join(diskfs.SyncDir(fsys, to), diskfs.SyncDir(fsys, fsys.PathDir(to)))
}

// batchBytes bounds one batch of a migration, in bytes.
const batchBytes = 1 << 20

// addVersions adds the version of each pending write, whose record keeps the value, too. It removes the
// records of superseded writes, which older formats removed with later batches. Each step leaves a store
// of the older format. A settled copy of an older format keeps its value until it is replaced.
func addVersions(db *pebble.DB) (err error) {
	snapshot := db.NewSnapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	totals, err := store.ReadTotals(snapshot)
	if err != nil {
		return err
	}
	batch := db.NewBatch()
	var lastKey []byte
	var last record.ID
	var lastVersion record.Version
	err = store.ScanPrefix(snapshot, []byte(record.PendingPrefix), func(key, body []byte, sum uint32) error {
		id, v, err := record.ReadPending(key, body, sum)
		if err != nil {
			return err
		}
		if id == last {
			totals.Remove(last, &lastVersion)
			if err := batch.Delete(lastKey, nil); err != nil {
				return err
			}
		}
		last, lastVersion, lastKey = id, v, bytes.Clone(key)
		if v.Apart { // FORMAT was damaged and names an older format
			return nil
		}
		versionKey, sealed, err := record.VersionOfPending(key, body)
		if err == nil {
			err = batch.Set(versionKey, sealed, nil)
		}
		if err != nil || batch.Len() < batchBytes {
			return err
		}
		totals.Batches++
		err = commit(batch, &totals)
		batch = db.NewBatch()
		return err
	})
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	totals.Batches++
	return commit(batch, &totals)
}

// commit makes a batch durable, with the state record after it.
func commit(batch *pebble.Batch, totals *record.Totals) error {
	err := batch.Set(record.StateKey, record.EncodeTotals(totals), nil)
	if err == nil {
		err = batch.Commit(pebble.Sync)
	}
	return errors.Join(err, batch.Close())
}

// RemoveLeftovers removes the checkpoint of a migration and the files of a recovery that was cut off.
// The caller has opened the store of the present format.
func RemoveLeftovers(opts store.Options) error {
	if err := removeWork(opts.FS, opts.Dir); err != nil {
		return err
	}
	old := checkpointOf(opts.Dir)
	if _, err := opts.FS.Stat(old); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := opts.FS.RemoveAll(old); err != nil {
		return err
	}
	opts.Logger.Info("removed the checkpoint of a migration", "dir", old)
	return nil
}
