package diskfs

import (
	"io/fs"
	"log/slog"
	"os"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

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
