package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkpointOf is where a migration keeps the directory as it was until the migrated
// one is in use.
func checkpointOf(dir string, version int) string { return fmt.Sprintf("%s.format-%d", dir, version) }

// migrate brings a directory of an older format to the present one (contract 21). The
// format file is what changes hands, by one rename at the end: until then the
// directory is one of the older format, which a file more does not disturb, and a
// migration that is cut off is begun anew.
//
// Format 2 is format 1 with a mark and with a count of batches in the state record,
// which the next batch adds.
func (j *Journal) migrate(from int) error {
	j.opts.Logger.Info("migrating the journal", "dir", j.opts.Dir, "from", from, "to", formatVersion,
		"checkpoint", checkpointOf(j.opts.Dir, from))
	m, err := j.checkpoint(from)
	if err != nil {
		return fmt.Errorf("migrating from format %d: %w", from, err)
	}
	fsys, dir := j.opts.FS, j.opts.Dir
	if m.manifest, m.length, m.sum, err = durableManifest(fsys, dir, mark{}); err != nil {
		return err
	}
	if err := createMark(fsys, dir, m); err != nil {
		return err
	}
	if err := writeFormat(fsys, dir); err != nil {
		return err
	}
	if err := finishFormat(fsys, dir); err != nil {
		return err
	}
	j.opts.Logger.Info("migrated the journal", "dir", dir, "to", formatVersion, "last_seq", m.seq)
	return nil
}

// checkpoint verifies the store before anything of it is touched, copies it aside and
// says what it has reached.
func (j *Journal) checkpoint(from int) (m mark, err error) {
	if err := j.examine(from); err != nil {
		return mark{}, err
	}
	db, err := openPebble(j.opts.Dir, j.storeOptions())
	if err != nil {
		return mark{}, err
	}
	err = j.copyAside(db, from)
	var t totals
	if err == nil {
		t, err = readTotals(db)
	}
	return mark{seq: t.seq, batches: t.batches}, errors.Join(err, db.Close())
}

// copyAside makes the checkpoint anew: one that is there was cut off, or is of the same
// store.
func (j *Journal) copyAside(db *pebble.DB, from int) error {
	fsys, to := j.opts.FS, checkpointOf(j.opts.Dir, from)
	if err := fsys.RemoveAll(to); err != nil {
		return err
	}
	if err := db.Checkpoint(to, pebble.WithFlushedWAL()); err != nil {
		return err
	}
	if err := vfs.Copy(fsys, fsys.PathJoin(j.opts.Dir, formatFile), fsys.PathJoin(to, formatFile)); err != nil {
		return err
	}
	return errors.Join(syncDir(fsys, to), syncDir(fsys, fsys.PathDir(to)))
}

// removeCheckpoints removes what a migration has kept, once the store of the present
// format is open.
func (j *Journal) removeCheckpoints() error {
	for version := 1; version < formatVersion; version++ {
		old := checkpointOf(j.opts.Dir, version)
		if _, err := j.opts.FS.Stat(old); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := j.opts.FS.RemoveAll(old); err != nil {
			return err
		}
		j.opts.Logger.Info("removed the checkpoint of a migration", "dir", old)
	}
	return nil
}
