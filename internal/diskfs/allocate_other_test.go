//go:build !linux

package diskfs

import "github.com/cockroachdb/pebble/v2/vfs"

func onDisk(vfs.FileInfo) (int64, bool) { return 0, false }
