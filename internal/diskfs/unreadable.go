package diskfs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Open wraps tables: a part of one that the disk cannot read is damaged, for Pebble as for its
// callers. The process does not end over it, as it does over a failed write (contract 2).
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

// IsUnreadable reports whether a read has failed because the disk has lost what it held.
func IsUnreadable(err error) bool { return errors.Is(err, syscall.EIO) }
