package diskfs

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// mergePauses is the number of pauses that a merge waits, so that tables from memory go first. They
// take little room, and may turn other tables into garbage. A merge takes all the room there is, and
// frees none of it if the room is not enough.
const mergePauses = 4

// errLastRoom refuses a merge while callers and the flusher need the remaining room.
var errLastRoom = fmt.Errorf("merging tables waits for room on the disk: %w", syscall.ENOSPC)

// turns decides when each table may be written, after one found no room.
type turns struct {
	pause     time.Duration
	mergeable func() bool // nil means always

	mu         sync.Mutex
	fromMemory time.Time // when a table from memory last found no room
	merging    time.Time // when a merged table last found no room
	giveWay    bool      // the merge in progress must free the room that it has taken
}

// wait waits until a table may begin. It returns false if a merge must be cancelled, because it would
// keep its room while it waits.
func (t *turns) wait(fromMemory bool) bool {
	after, ok := t.next(fromMemory)
	if ok {
		time.Sleep(time.Until(after))
	}
	return ok
}

// next returns when a table may begin; ok is false if it may not.
func (t *turns) next(fromMemory bool) (after time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fromMemory {
		return t.fromMemory.Add(t.pause), true
	}
	if t.giveWay {
		t.giveWay = false
		return time.Time{}, false
	}
	last := t.fromMemory
	if t.merging.After(last) {
		last = t.merging
	}
	return last.Add(mergePauses * t.pause), true
}

// note records an attempt at a table that found no room. It returns err.
func (t *turns) note(fromMemory bool, err error) error {
	if !IsFull(err) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if fromMemory {
		t.fromMemory, t.giveWay = time.Now(), true
	} else {
		t.merging = time.Now()
	}
	return err
}

// pacedTable is a table in the course of being written.
type pacedTable struct {
	vfs.File
	turns      *turns
	fromMemory bool
}

// Write refuses a merge that would take the last room.
func (f pacedTable) Write(b []byte) (int, error) {
	if !f.fromMemory && f.turns.mergeable != nil && !f.turns.mergeable() { // guard 3.10
		return 0, f.turns.note(false, errLastRoom)
	}
	n, err := f.File.Write(b)
	return n, f.turns.note(f.fromMemory, err)
}

func (f pacedTable) Sync() error { return f.turns.note(f.fromMemory, f.File.Sync()) }

func (f pacedTable) SyncData() error { return f.turns.note(f.fromMemory, f.File.SyncData()) }
