package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
)

// replacedName returns the name of the old journal while the recovered one replaces it. While a
// directory of this name exists and the journal does not, a start creates no new journal: see
// [CheckSwap].
func replacedName(dir string) string { return dir + ".replaced" }

// sortingName returns the directory for sorting the records, copyingName the one for the copy until it is
// whole, and madeName the one for the new journal.
func sortingName(dir string) string { return dir + ".sorting" }
func copyingName(dir string) string { return dir + ".copying" }
func madeName(dir string) string    { return dir + ".recovering" }

// damagedName returns the name prefix of all copies of damaged directories.
func damagedName(dir string) string { return dir + ".damaged-" }

// Aside returns the copies of damaged directories.
func Aside(fsys vfs.FS, dir string) (copies []string, err error) {
	parent := fsys.PathDir(dir)
	names, err := fsys.List(parent)
	for _, name := range names {
		if path := fsys.PathJoin(parent, name); strings.HasPrefix(path, damagedName(fsys.PathJoin(parent, fsys.PathBase(dir)))) {
			copies = append(copies, path)
		}
	}
	return copies, err
}

// RemoveWork removes the files of a recovery that has failed or was cut off.
func RemoveWork(fsys vfs.FS, dir string) error {
	return errors.Join(fsys.RemoveAll(sortingName(dir)), fsys.RemoveAll(copyingName(dir)), fsys.RemoveAll(madeName(dir)))
}

// undoSwap undoes a replacement that was cut off between its two renames, and cleans up after one that
// was cut off later. In the second case finished is true, and the report may not have been shown to
// anybody.
func undoSwap(fsys vfs.FS, dir string) (finished bool, _ error) {
	replaced := replacedName(dir)
	if _, err := fsys.Stat(replaced); errors.Is(err, fs.ErrNotExist) {
		_, err := fsys.Stat(dir)
		return false, err
	}
	if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return true, errors.Join(err, fsys.RemoveAll(replaced))
	}
	if err := fsys.Rename(replaced, dir); err != nil {
		return false, err
	}
	return false, diskfs.SyncDir(fsys, fsys.PathDir(dir))
}

// CheckSwap returns [record.ErrCorrupt] if a recovery was cut off while it replaced the journal. A
// start that finds no journal calls it before it creates one.
func CheckSwap(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(replacedName(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%w: a recovery was cut off, and is to be begun again", record.ErrCorrupt)
}

// unusedName returns a name for the copy of a damaged directory.
func unusedName(fsys vfs.FS, dir string, now time.Time) (string, error) {
	base := damagedName(dir) + now.UTC().Format("20060102T150405Z")
	to := base
	for i := 2; ; i++ {
		if _, err := fsys.Stat(to); errors.Is(err, fs.ErrNotExist) {
			return to, nil
		} else if err != nil {
			return "", err
		}
		to = fmt.Sprint(base, "-", i)
	}
}

// copyDamaged copies a directory, durably, to copyingName.
func copyDamaged(fsys vfs.FS, dir string) error {
	isLock := func(path string) bool { return fsys.PathBase(path) == "LOCK" }
	_, err := vfs.Clone(fsys, fsys, dir, copyingName(dir), vfs.CloneSync, vfs.CloneSkip(isLock))
	if err != nil {
		return err
	}
	return diskfs.SyncDir(fsys, copyingName(dir))
}

// swap gives the copy of dir its name, and replaces dir with the new journal. If it is cut off, one of the
// two is in place, or [CheckSwap] refuses a start and [Recover] begins again.
func swap(fsys vfs.FS, dir, copied string) error {
	parent := fsys.PathDir(dir)
	if err := fsys.Rename(copyingName(dir), copied); err != nil { // guard 4.38
		return err
	}
	if err := fsys.Rename(dir, replacedName(dir)); err != nil {
		return err
	}
	if err := diskfs.SyncDir(fsys, parent); err != nil {
		return err
	}
	if err := fsys.Rename(madeName(dir), dir); err != nil {
		return err
	}
	if err := diskfs.SyncDir(fsys, parent); err != nil {
		return err
	}
	return fsys.RemoveAll(replacedName(dir))
}
