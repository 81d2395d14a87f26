package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
)

// sortingName returns the directory for sorting the records, buildingName the one for the new journal, and madeName the
// one for it once it is complete. While the last one exists and the journal does not, a swap was cut off: see [FinishSwap].
func sortingName(dir string) string  { return dir + ".sorting" }
func buildingName(dir string) string { return dir + ".recovering" }
func madeName(dir string) string     { return dir + ".recovered" }

// damagedName returns the name prefix of all copies of damaged directories.
func damagedName(dir string) string { return dir + ".damaged-" }

// Aside returns the copies of damaged directories, the oldest first, without their reports.
func Aside(fsys vfs.FS, dir string) (copies []string, err error) {
	parent := fsys.PathDir(dir)
	names, err := fsys.List(parent)
	for _, name := range names {
		path := fsys.PathJoin(parent, name)
		if strings.HasPrefix(path, damagedName(fsys.PathJoin(parent, fsys.PathBase(dir)))) && !strings.HasSuffix(path, reportSuffix) {
			copies = append(copies, path)
		}
	}
	slices.Sort(copies)
	return copies, err
}

// RemoveWork removes the files of a recovery that has failed or was cut off, except a new journal that is to be put in its
// place.
func RemoveWork(fsys vfs.FS, dir string) error {
	if cut, err := IsCut(fsys, dir); cut || err != nil {
		return err
	}
	return errors.Join(fsys.RemoveAll(sortingName(dir)), fsys.RemoveAll(buildingName(dir)), fsys.RemoveAll(madeName(dir)))
}

// FinishSwap puts the new journal in its place, if a recovery was cut off before it could. A start calls it after it has
// made the directory: so it begins no new journal while another process is between the two renames of a swap.
func FinishSwap(fsys vfs.FS, dir string) (finished bool, _ error) {
	cut, err := IsCut(fsys, dir)
	if err != nil || !cut {
		return false, err
	}
	if err := ignoreMissing(fsys.Remove(dir)); err != nil {
		return false, err
	}
	return true, ignoreMissing(rename(fsys, madeName(dir), dir)) // another start may be faster
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// IsCut reports whether a recovery was cut off before it could put the new journal in its place, which is empty.
func IsCut(fsys vfs.FS, dir string) (bool, error) {
	_, err := fsys.Stat(madeName(dir))
	var names []string
	if err == nil {
		if names, err = fsys.List(dir); errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return err == nil && len(names) == 0, err // guard 4.44
	}
	return false, ignoreMissing(err)
}

// rename renames durably.
func rename(fsys vfs.FS, from, to string) error {
	if err := fsys.Rename(from, to); err != nil {
		return err
	}
	return diskfs.SyncDir(fsys, fsys.PathDir(to))
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

// swap keeps the damaged directory under another name, and puts the new journal in its place. From the first rename on,
// the new journal counts: if the swap is cut off, it is in its place, or [FinishSwap] puts it there, or the damaged one is still in its
// place.
func swap(fsys vfs.FS, dir, kept string) error {
	if err := rename(fsys, buildingName(dir), madeName(dir)); err != nil {
		return err
	}
	if err := rename(fsys, dir, kept); err != nil { // guard 4.38
		return err
	}
	_, err := FinishSwap(fsys, dir)
	return err
}
