package diskfs

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Newest is the log that the records go to. Another program may remove, rename or cut its file: writes still succeed
// then, and nobody finds the records after the process has ended. It may be used concurrently.
type Newest struct {
	mu  sync.Mutex // guards log and its size, and keeps its file open while Lost looks at it
	log *openLog   // nil if none is open
}

// openLog is a log that a Newest knows until it is closed.
type openLog struct {
	vfs.File
	name string
	of   *Newest
	size int64 // the most that it has had: only another program makes it smaller
}

// is returns the file as the newest log.
func (n *Newest) is(file vfs.File, name string) vfs.File {
	if n == nil {
		return file
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = &openLog{File: file, name: name, of: n}
	n.log.isCut() // learns the size
	return n.log
}

func (l *openLog) Close() error {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.of.log == l {
		l.of.log = nil
	}
	return l.File.Close()
}

// isCut reports whether the log is smaller than it was. The caller holds the lock of its Newest.
func (l *openLog) isCut() bool {
	now, err := l.Stat()
	if err != nil {
		return false
	}
	was := l.size
	l.size = max(was, now.Size())
	return now.Size() < was // guard 2.15
}

// Lost returns the name of the log if no file has it any more, or another file, or if it was cut. It reports nothing that
// the system cannot tell.
func (n *Newest) Lost(fsys vfs.FS) (name string, lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	log := n.log
	if log == nil {
		return "", false
	}
	named, err := fsys.Stat(log.name)
	if err != nil {
		return log.name, errors.Is(err, fs.ErrNotExist)
	}
	open, err := log.Stat() // now: some file systems give a file another number later
	return log.name, err == nil && isOther(named, open) || log.isCut()
}
