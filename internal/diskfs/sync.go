package diskfs

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SyncDir makes the names in a directory durable.
func SyncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteFile creates a file with this text. The file and its name are durable when it returns.
func WriteFile(fsys vfs.FS, name string, text []byte) error {
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return SyncDir(fsys, fsys.PathDir(name))
}

// DirMode keeps other users out of the journal's directory. Files in it get the modes that the process's umask
// allows.
const DirMode fs.FileMode = 0o700

// MakePrivate sets an existing directory's mode to [DirMode]. Where it cannot, such as on a volume
// without modes, it logs a warning.
func MakePrivate(fsys vfs.FS, dir string, logger *slog.Logger) {
	if vfs.Root(fsys) != vfs.Default || runtime.GOOS == "windows" {
		return // other file systems have no modes
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm() == DirMode {
		return
	}
	if err == nil {
		err = os.Chmod(dir, DirMode) // guard 21.7
	}
	if err != nil {
		logger.Warn("other users may look into the journal", "dir", dir, "error", err)
	}
}
