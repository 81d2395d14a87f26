package diskfs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Open wraps tables. A part of a table that the disk cannot read counts as damaged, for Pebble and for
// its callers. Unlike a failed write, it does not end the process (contract 2).
func (d diskFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.Open(name, opts...)
	if err == nil && strings.HasSuffix(name, ".sst") {
		return readTable{f}, nil
	}
	return f, err
}

type readTable struct{ vfs.File }

func (f readTable) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if IsUnreadable(err) { // guard 2.12
		err = fmt.Errorf("%w: %w", pebble.ErrCorruption, err)
	}
	return n, err
}

// IsUnreadable reports whether a read has failed because the disk has lost the data.
func IsUnreadable(err error) bool { return errors.Is(err, syscall.EIO) }
