package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
)

const (
	// damageFile names what was found damaged since the store was opened. The next start reads all of a
	// store with this file before anything else, and mends it.
	damageFile = "DAMAGE"
	// damagedRecords stands in it for records that fail their checks in a table that does not.
	damagedRecords = "records"
)

// damage is what was found damaged since the store was opened.
type damage struct {
	mu    sync.Mutex
	files map[string]string // what was wrong, by the name of the file
}

// meetDamage notes the damage that Pebble meets in a table. The caller of the read decides whether the process can go on.
func (e *engine) meetDamage(info pebble.DataCorruptionInfo) {
	e.note(e.opts.FS.PathBase(info.Path), info.Details)
}

// note logs the first damage of a file, and keeps its name for the next start.
func (e *engine) note(file string, err error) {
	d := &e.damage
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.files[file]; known {
		return
	}
	if d.files == nil {
		d.files = make(map[string]string)
	}
	d.files[file] = OneLine(err).Error()
	e.opts.Logger.Warn("the journal is damaged: what cannot be read counts as missing, and upstream is asked instead; restart botwired to mend it",
		"file", file, "error", d.files[file])
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		fmt.Fprintf(&text, "%s: %s\n", name, d.files[name])
	}
	if err := diskfs.WriteFile(e.opts.FS, e.opts.FS.PathJoin(e.opts.Dir, damageFile), []byte(text.String())); err != nil {
		e.opts.Logger.Error("the next start is not told of the damage", "error", OneLine(err))
	}
}

// Damaged reports whether a read has failed because of damage, and notes the damage. The caller then goes on as if the record
// were not there.
func (e *engine) Damaged(err error) bool {
	if !IsDamage(err) {
		return false
	}
	if !pebble.IsCorruptionError(err) || e.DamagedFiles() == 0 {
		e.note(damagedRecords, err)
	}
	return true
}

// Owed returns an error of a read of what may not be missing: a pending write, a dead letter, or what was sent. If it is
// damage, the process ends, and the next start says what is to be done.
func (e *engine) Owed(err error) error {
	if e.Damaged(err) && !e.closing.Load() { // guard 4.40
		e.fail(Classify(err))
	}
	return err
}

// DamagedFiles returns how many files were found damaged since the store was opened.
func (e *engine) DamagedFiles() int {
	e.damage.mu.Lock()
	defer e.damage.mu.Unlock()
	return len(e.damage.files)
}

// wasDamaged reports whether an earlier process has found damage.
func wasDamaged(fsys vfs.FS, dir string) (bool, error) {
	_, err := fsys.Stat(fsys.PathJoin(dir, damageFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Examine looks for damage, and changes nothing: [Check] does, and then the store, opened for reading alone, holds
// what its state record counts, with the values of the pending writes. It reads every block of the tables that hold more
// than copies, receipts and versions. If all is set, or an earlier process has found damage, it reads all tables, and
// records judges the records.
//
// Errors: [record.ErrCorrupt], and those of the file system.
func Examine(opts Options, all bool, records func(*pebble.DB) error) error {
	noted, err := wasDamaged(opts.FS, opts.Dir)
	if err != nil {
		return err
	}
	m, err := Check(opts)
	if err != nil {
		return err
	}
	db, err := OpenPebble(opts)
	if err != nil {
		return err
	}
	err = examine(opts, db, &m, all || noted)
	if err == nil && (all || noted) { // guard 4.18
		err = records(db)
	}
	return Classify(errors.Join(err, db.Close()))
}

func examine(opts Options, db *pebble.DB, m *Mark, all bool) error {
	want, err := ReadTotals(db)
	if err == nil {
		err = m.Reached(want) // guard 4.5
	}
	if err != nil {
		return err
	}
	versions, err := NewVersions(db)
	if err != nil {
		return err
	}
	found, err := Count(db, func(id record.ID, v record.Pending) error {
		_, err := versions.Find(id, v.Seq) // guard 4.29
		return err
	})
	if err = errors.Join(err, versions.Close()); err != nil {
		return err
	}
	if err := want.Compare(found); err != nil { // guard 4.2
		return err
	}
	return checkTables(opts, db, all) // guard 4.17
}
