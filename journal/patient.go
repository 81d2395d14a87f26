package journal

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fullDiskPause is how long nothing of what has been written is tried again after it found
// no room. Pebble tries again at once, and would do nothing else, and log each time.
const fullDiskPause = 500 * time.Millisecond

// mergePauses is how many such pauses merging tables waits: to write what is in memory
// goes first. It takes little room and may say what of the tables is garbage, where
// merging takes all the room there is, and gives none of it back if it is not enough.
const mergePauses = 4

// flushCategory is Pebble's name for what is written from memory to a table.
const flushCategory = "pebble-memtable-flush"

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// patientFS has those who write tables to a full disk take turns. Tables are written in
// the background, with no lock held; the log, for which callers wait, is left alone.
//
// It also tells lost of a log or a directory that cannot be written or synced. Pebble
// panics about some of that, where nobody can recover: the process would end with the
// stacks of all goroutines and no reason.
type patientFS struct {
	vfs.FS
	turns *turns
	lost  func(error)
}

func (p patientFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	flush, table := category == flushCategory, strings.HasSuffix(name, ".sst")
	if table && !p.turns.wait(flush) {
		return nil, syscall.ENOSPC
	}
	f, err := p.FS.Create(name, category)
	switch {
	case table && err != nil:
		return nil, p.turns.tell(flush, err)
	case table:
		return patientFile{f, p.turns, flush}, nil
	case err == nil && strings.HasSuffix(name, ".log"):
		return &newLog{watchedFile: watchedFile{f, p.lost}}, nil
	}
	return f, err
}

// ReuseForWrite makes a log of an old one.
func (p patientFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return p.watch(p.FS.ReuseForWrite(from, to, category))
}

func (p patientFS) OpenDir(name string) (vfs.File, error) { return p.watch(p.FS.OpenDir(name)) }

func (p patientFS) watch(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return watchedFile{f, p.lost}, nil
}

// Unwrap lets Pebble find what is beneath.
func (p patientFS) Unwrap() vfs.FS { return p.FS }

// turns says who may write a table when, once there was no room for one.
type turns struct {
	pause time.Duration

	mu       sync.Mutex
	flushing time.Time // when one from memory last found no room
	merging  time.Time // when a merged one did
	giveWay  bool      // whether a merge under way has to give back what it has taken
}

// wait returns when a table may be begun, false if a merge is to be given up: while it
// waited it would keep its room.
func (t *turns) wait(flush bool) bool {
	t.mu.Lock()
	free := t.flushing.Add(t.pause)
	gives := t.giveWay && !flush
	if !flush {
		t.giveWay = false
		free = t.merging.Add(mergePauses * t.pause)
		if after := t.flushing.Add(mergePauses * t.pause); after.After(free) {
			free = after
		}
	}
	t.mu.Unlock()
	if !gives {
		time.Sleep(time.Until(free))
	}
	return !gives
}

// tell notes what came of writing a table.
func (t *turns) tell(flush bool, err error) error {
	if !isDiskFull(err) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if flush {
		t.flushing, t.giveWay = time.Now(), true
	} else {
		t.merging = time.Now()
	}
	return err
}

// patientFile is a table that is being written.
type patientFile struct {
	vfs.File
	turns *turns
	flush bool
}

func (f patientFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.turns.tell(f.flush, err)
}

func (f patientFile) Sync() error { return f.turns.tell(f.flush, f.File.Sync()) }

func (f patientFile) SyncData() error { return f.turns.tell(f.flush, f.File.SyncData()) }

// watchedFile is one that must not fail.
type watchedFile struct {
	vfs.File
	lost func(error)
}

func (f watchedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.tell(err)
}

func (f watchedFile) Sync() error { return f.tell(f.File.Sync()) }

func (f watchedFile) SyncData() error { return f.tell(f.File.SyncData()) }

func (f watchedFile) SyncTo(length int64) (fullSync bool, err error) {
	fullSync, err = f.File.SyncTo(length)
	return fullSync, f.tell(err)
}

// zeroAhead is how much of a log, in bytes, is filled with zeros at a time.
const zeroAhead = 256 << 10

// newLog is a new log. What has been allocated and not written to is filled with zeros
// ahead of the records: else each sync would have to note of another piece of the file
// that it has been written to now, which takes nearly as long again as the rest of it. A
// log that is used again has been written to.
type newLog struct {
	watchedFile
	written int64 // up to where there are records
	zeroed  int64 // up to where something has been written
	room    int64 // up to where the file has been allocated
}

func (f *newLog) Write(b []byte) (int, error) {
	f.fill(f.written + int64(len(b)))
	n, err := f.watchedFile.Write(b)
	f.written += int64(n)
	return n, err
}

// fill writes zeros behind what is about to be written. What goes wrong with them does
// not matter: they are there for speed only, and a disk that fails fails the records too.
func (f *newLog) fill(end int64) {
	if end <= f.zeroed || f.zeroed >= f.room {
		return
	}
	from := max(f.zeroed, end)
	if f.zeroed = min(from+zeroAhead, f.room); from >= f.zeroed {
		return
	}
	if _, err := f.WriteAt(zeros[:f.zeroed-from], from); err != nil {
		f.room = 0
	}
}

var zeros [zeroAhead]byte

func (f watchedFile) tell(err error) error {
	if err != nil {
		f.lost(err)
	}
	return err
}
