package diskfs

import (
	"errors"

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
