//go:build !linux

package diskfs

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func allocate(vfs.File, int64, int64) error { return errors.ErrUnsupported }
