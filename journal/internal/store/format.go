package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
)

const (
	// FormatFile holds the format version as text, so that it can be read before anything else in the
	// directory is touched (contract 21). It is written when the store is complete, so without it
	// nothing was ever acknowledged.
	FormatFile = "FORMAT"
	// creatingFile is the name of the format file until the store is complete. If it exists, the
	// creation of the store was cut off.
	creatingFile = "FORMAT.new"
	formatLine   = "botwired journal "
	// FormatVersion is the version of the layout described in the docs of this package and of package
	// record.
	FormatVersion = 6
)

// CheckFormat reports whether there is a store in a directory. Errors: [ErrFormat] if this version of
// botwired cannot read its format, [ErrNoFormat] for a store without a readable version, and those of the
// file system.
func CheckFormat(fsys vfs.FS, dir string) (exists bool, _ error) {
	f, err := fsys.Open(fsys.PathJoin(dir, FormatFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, checkEmpty(fsys, dir) // guard 4.3
	}
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 256))
	if err = errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	number, ok := strings.CutPrefix(strings.TrimSpace(string(text)), formatLine)
	version, err := strconv.Atoi(number)
	if !ok || err != nil || version < 1 {
		return false, fmt.Errorf("%w: file %s does not say %q and a version", ErrNoFormat, FormatFile, strings.TrimSpace(formatLine))
	}
	if version != FormatVersion { // guard 21.1
		remedy := "start the version of botwired that wrote it, run botwired flush there, then start this one with an empty data_dir"
		if version > FormatVersion {
			remedy = "use the newer version of botwired that wrote it; to go back, run botwired flush there, then start this one with an empty data_dir"
		}
		return false, fmt.Errorf("%w: the directory has version %d, and this botwired reads version %d: %s", ErrFormat, version, FormatVersion, remedy)
	}
	return true, nil
}

// checkEmpty refuses a directory that has a store but no format file: the file was lost, or the store
// is not ours.
func checkEmpty(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.Contains(names, creatingFile) {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") || strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log") {
			return fmt.Errorf("%w: it holds %s but no file %s", ErrNoFormat, name, FormatFile)
		}
	}
	return nil
}

// finish makes a store complete, durably: it writes the mark and then the format file.
func finish(fsys vfs.FS, dir string) (err error) {
	var m Mark
	if m.manifestMark, err = (manifestMark{}).next(fsys, dir); err != nil {
		return err
	}
	if err := createMark(fsys, dir, &m); err != nil { // guard 21.5
		return err
	}
	if err := writeFormat(fsys, dir); err != nil {
		return err
	}
	if err := fsys.Rename(fsys.PathJoin(dir, creatingFile), fsys.PathJoin(dir, FormatFile)); err != nil {
		return err
	}
	return diskfs.SyncDir(fsys, dir) // guard 21.5b
}

// writeFormat writes the format file, durably, as creatingFile.
func writeFormat(fsys vfs.FS, dir string) error {
	return diskfs.WriteFile(fsys, fsys.PathJoin(dir, creatingFile), fmt.Appendf(nil, "%s%d\n", formatLine, FormatVersion))
}

// syncAncestors makes the names of the directory and of all its ancestors durable, even those that
// botwired did not make: a power cut must not lose the journal with its name. It stops where this user
// may not read, or where the file system cannot sync a directory.
func syncAncestors(fsys vfs.FS, dir string) error {
	for parent := fsys.PathDir(dir); parent != dir; dir, parent = parent, fsys.PathDir(parent) {
		err := diskfs.SyncDir(fsys, parent)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
