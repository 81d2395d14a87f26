package journal

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

// fullDiskPause is how long nothing of what has been written is tried again after it found
// no room. Pebble tries again at once, and would do nothing else, and log each time.
const fullDiskPause = 500 * time.Millisecond

// mergePauses is how many such pauses merging tables waits: to write what is in memory
// goes first. It takes little room and may say what of the tables is garbage, where
// merging takes all the room there is, and gives none of it back if it is not enough.
const mergePauses = 4

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

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
	after, ok := t.next(flush)
	if ok {
		time.Sleep(time.Until(after))
	}
	return ok
}

// next is when a table may be begun, and whether it may.
func (t *turns) next(flush bool) (after time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if flush {
		return t.flushing.Add(t.pause), true
	}
	if t.giveWay {
		t.giveWay = false
		return time.Time{}, false
	}
	last := t.flushing
	if t.merging.After(last) {
		last = t.merging
	}
	return last.Add(mergePauses * t.pause), true
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
