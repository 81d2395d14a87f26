package diskfs

import (
	"io/fs"
	"log/slog"
	"os"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DirMode keeps other users out of every directory that the journal creates. The files in them have the
// modes that the process's umask allows.
const DirMode fs.FileMode = 0o700

// privateFS creates every directory with [DirMode].
type privateFS struct{ vfs.FS }

// Private returns a view of fs that creates every directory with [DirMode], even if the caller passes
// another mode.
func Private(fs vfs.FS) vfs.FS { return privateFS{fs} }

func (p privateFS) MkdirAll(dir string, _ fs.FileMode) error { return p.FS.MkdirAll(dir, DirMode) }

// Unwrap lets Pebble find the underlying file system.
func (p privateFS) Unwrap() vfs.FS { return p.FS }

// fileMode keeps other users out of a file next to the journal's directory, because they may be able to
// read the parent directory.
const fileMode = 0o600

// CreatePrivate creates a file that only its owner may read, on a volume that supports modes.
func CreatePrivate(fs vfs.FS, name string) (vfs.File, error) {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil && f.Fd() != vfs.InvalidFd { // not in memory
		_ = os.Chmod(name, fileMode)
	}
	return f, err
}

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
