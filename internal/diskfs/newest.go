package diskfs

import (
	"errors"
	"io/fs"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Newest is the log that the records go to. Another program may remove or rename its file: writes still succeed then,
// and nobody finds the records after the process has ended. It may be used concurrently.
type Newest struct{ log atomic.Pointer[openLog] }

type openLog struct {
	file vfs.File
	name string
}

func (n *Newest) is(file vfs.File, name string) {
	if n != nil {
		n.log.Store(&openLog{file, name})
	}
}

// Lost returns the name of the log if no file has it any more, or another file. It reports nothing that the system
// cannot tell.
func (n *Newest) Lost(fsys vfs.FS) (name string, lost bool) {
	log := n.log.Load()
	if log == nil {
		return "", false
	}
	named, err := fsys.Stat(log.name)
	if err != nil {
		return log.name, errors.Is(err, fs.ErrNotExist)
	}
	open, err := log.file.Stat() // now: some file systems give a file another number later
	return log.name, err == nil && isOther(named, open)
}
