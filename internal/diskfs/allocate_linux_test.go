package diskfs

import (
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// onDisk returns how many bytes a file takes on disk.
func onDisk(info vfs.FileInfo) (n int64, ok bool) {
	stat, ok := info.(os.FileInfo).Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Blocks * 512, true
}
