//go:build sweep

package journal_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// fullFor is how many operations in a row fail while the disk is temporarily full.
const fullFor = 25

// ailment is a way in which a disk fails: the operations to count, and the effect from the Nth on.
type ailment struct {
	name   string
	counts func(errorfs.Op) bool
	fails  func(n, now int) error // now is at least n
	spoils func(errorfs.Op) bool  // other operations that also fail from the Nth on; nil means none
	torn   bool                   // only half of each write arrives
	sample bool                   // only some N, unless all are requested
}

var ailments = []ailment{
	{name: "eio", counts: changes, fails: once(syscall.EIO)},
	{name: "eio-read", counts: looks, fails: once(syscall.EIO), sample: true},
	{name: "dead", counts: changes, fails: ever(syscall.EIO), spoils: looks},
	{name: "full", counts: takesRoom, fails: once(syscall.ENOSPC)},
	{name: "full-while", counts: takesRoom, fails: during(syscall.ENOSPC, fullFor)},
	{name: "torn-eio", counts: writes, fails: once(syscall.EIO), torn: true},
	{name: "torn-full", counts: writes, fails: during(syscall.ENOSPC, fullFor), torn: true},
}

func changes(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }
func looks(op errorfs.Op) bool   { return op.Kind.ReadOrWrite() == errorfs.OpIsRead }

func writes(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileWriteAt
}

func takesRoom(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpRename, errorfs.OpReuseForWrite, errorfs.OpMkdirAll, errorfs.OpLink, errorfs.OpFilePreallocate:
		return true
	}
	return writes(op) || isSync(op)
}

func once(err error) func(n, now int) error { return during(err, 1) }

func during(err error, length int) func(n, now int) error {
	return func(n, now int) error {
		if now < n+length {
			return err
		}
		return nil
	}
}

func ever(err error) func(n, now int) error { return func(int, int) error { return err } }

// sickDisk is a file system with an ailment from its Nth operation on. With n 0, it is healthy and only
// counts.
type sickDisk struct {
	ailment
	n   int
	mem *calmFS
	fs  vfs.FS

	mu     sync.Mutex
	now    int
	hit    *errorfs.Op // the first operation that failed
	failed string      // a file whose sync failed in this process
	again  bool        // it was synced again
	left   bool        // the process is ending by itself: do not end it again
	serves bool        // the first failure was of a change that the store relies on, while it was in service
}

func newSickDisk(a ailment, n int) *sickDisk {
	d := &sickDisk{ailment: a, n: n, mem: newCalmFS()}
	if a.torn {
		d.fs = tornFS{d.mem, d}
	} else {
		d.fs = errorfs.Wrap(d.mem, errorfs.InjectorFunc(d.meet))
	}
	return d
}

// meet counts an operation and returns its outcome.
func (d *sickDisk) meet(op errorfs.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isSync(op) && op.Path == d.failed {
		d.again = true
	}
	if !d.counts(op) {
		if d.spoils != nil && d.hit != nil && d.spoils(op) {
			return d.fails(d.n, d.now)
		}
		return nil
	}
	if d.now++; d.n == 0 || d.now < d.n {
		return nil
	}
	err := d.fails(d.n, d.now)
	if err != nil && d.hit == nil {
		d.hit = &op
		d.serves = !d.left && (isSync(op) || writes(op) || op.Kind == errorfs.OpCreate)
		// If a table found the disk full, Pebble makes it again, and syncs its new directory entry.
		// Pebble must not retry the sync of a log or a manifest.
		if isSync(op) && (errors.Is(err, syscall.EIO) || fileKind(op.Path) != "directory") {
			d.failed = op.Path
		}
	}
	return err
}

// restart resets the state that concerns only one process.
func (d *sickDisk) restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed, d.left = "", false
}

// leave records that the process is ending by itself.
func (d *sickDisk) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = true
}

// what describes the first operation that failed.
func (d *sickDisk) what() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hit == nil {
		return ""
	}
	return fmt.Sprintf("%s of %s", kindName(*d.hit), fileKind(d.hit.Path))
}

func kindName(op errorfs.Op) string {
	names := map[errorfs.OpKind]string{
		errorfs.OpCreate: "create", errorfs.OpRemove: "remove", errorfs.OpRename: "rename", errorfs.OpReuseForWrite: "reuse",
		errorfs.OpMkdirAll: "mkdir", errorfs.OpLock: "lock", errorfs.OpFilePreallocate: "preallocate",
		errorfs.OpFileWrite: "write", errorfs.OpFileWriteAt: "write", errorfs.OpOpen: "open", errorfs.OpOpenDir: "open",
		errorfs.OpList: "list", errorfs.OpStat: "stat", errorfs.OpFileStat: "stat", errorfs.OpGetDiskUsage: "usage",
		errorfs.OpFileRead: "read", errorfs.OpFileReadAt: "read",
	}
	if isSync(op) {
		return "sync"
	}
	if name, ok := names[op.Kind]; ok {
		return name
	}
	return fmt.Sprint("operation ", int(op.Kind))
}

func fileKind(path string) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for _, suffix := range []string{".log", ".sst", ".dbtmp", ".blob"} {
		if strings.HasSuffix(base, suffix) {
			return "*" + suffix
		}
	}
	for _, prefix := range []string{"MANIFEST", "OPTIONS", "marker.manifest", "marker.format", "FORMAT", "LOCK"} {
		if strings.HasPrefix(base, prefix) {
			return prefix
		}
	}
	return "directory"
}

// tornFS is a file system on which only half of each write arrives.
type tornFS struct {
	vfs.FS
	disk *sickDisk
}

func (t tornFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := t.FS.Create(name, c)
	return t.wrap(name, f, err)
}

func (t tornFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := t.FS.ReuseForWrite(from, to, c)
	return t.wrap(to, f, err)
}

func (t tornFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return tornFile{f, name, t.disk}, nil
}

type tornFile struct {
	vfs.File
	name string
	disk *sickDisk
}

func (f tornFile) Write(p []byte) (int, error) {
	if err := f.disk.meet(errorfs.Op{Kind: errorfs.OpFileWrite, Path: f.name}); err != nil {
		n, writeErr := f.File.Write(p[:len(p)/2])
		if writeErr != nil {
			return n, writeErr
		}
		return n, err
	}
	return f.File.Write(p)
}
