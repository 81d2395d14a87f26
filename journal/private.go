package journal

import (
	"io/fs"
	"log/slog"
	"os"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// dirMode keeps other users out of every directory that the journal makes: the files
// in them have the modes that the process's umask leaves.
const dirMode fs.FileMode = 0o700

// privateFS is for those who make directories with a mode of their own.
type privateFS struct{ vfs.FS }

func (p privateFS) MkdirAll(dir string, _ fs.FileMode) error { return p.FS.MkdirAll(dir, dirMode) }

// Unwrap lets Pebble find what is beneath.
func (p privateFS) Unwrap() vfs.FS { return p.FS }

// keepPrivate gives a directory that was there before its mode. Where that cannot be
// done, such as on a volume without modes, it is used as it is.
func keepPrivate(fsys vfs.FS, dir string, logger *slog.Logger) {
	if fsys != vfs.Default || runtime.GOOS == "windows" {
		return // others know no modes
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm() == dirMode {
		return
	}
	if err == nil {
		err = os.Chmod(dir, dirMode)
	}
	if err != nil {
		logger.Warn("other users may look into the journal", "dir", dir, "error", err)
	}
}
