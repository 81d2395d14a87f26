package diskfs

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// mergePauses is the number of pauses that a merge waits: tables from memory go first. They take
// little room, and may show that other tables are garbage. A merge takes all the room there is, and
// gives none of it back if that is not enough.
const mergePauses = 4

// errLastRoom refuses a merge while callers and the flusher need the room that is left.
var errLastRoom = fmt.Errorf("merging tables waits for room on the disk: %w", syscall.ENOSPC)

// turns decides which table may be written when, once there was no room for one.
type turns struct {
	pause     time.Duration
	mergeable func() bool // nil is always

	mu         sync.Mutex
	fromMemory time.Time // when a table from memory last found no room
	merging    time.Time // when a merged one did
	giveWay    bool      // a merge under way has to give back the room it has taken
}

// wait waits until a table may begin. It returns false if a merge must be given up, because it
// would keep its room while it waits.
func (t *turns) wait(fromMemory bool) bool {
	after, ok := t.next(fromMemory)
	if ok {
		time.Sleep(time.Until(after))
	}
	return ok
}

// next returns when a table may begin, and whether it may.
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

// note remembers an attempt at a table that found no room. It returns err.
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

// pacedTable is a table that is being written.
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
