package flush

import (
	"math"
	"time"

	"github.com/botwired/botwired/internal/hashtable"
)

// lingerCap bounds the wait of an entry's oldest unsent write, in lingers. Without it a busy entry would
// postpone itself for ever.
const lingerCap = 10

// task is an entry with a pending write. There may be a million: a task takes 80 bytes, and retry has the
// fields that few tasks need.
type task struct {
	hashtable.Node[task] // in its queue's table, by the entry's key

	seq uint64 // of the newest write known; 0 if the journal has announced none
	// first is the position, among all writes announced, of the oldest one that is not
	// known to be done with; 0 if there is none.
	first     uint64
	writtenAt instant     // when the newest write came that postponed the task
	prev      *task       // in its line
	next      *task       // in its line
	retry     *retryState // nil while nothing went wrong
	waited    uint32      // how long the oldest unsent write had waited at writtenAt, in milliseconds
	running   bool        // a request is under way, and the task is in no line
	urgent    bool        // a caller waits for this entry: no linger
	through   bool        // writes through wait for its turn: see throughs
	removes   bool        // one of its unsent writes is a delete, and there is a quota, or the namespace is full
}

// waitedFor returns the wait of the oldest unsent write.
func (t *task) waitedFor(now instant) instant {
	return instant(time.Duration(t.waited)*time.Millisecond) + now - t.writtenAt
}

// begin starts the linger of a task whose writes were all sent before.
func (t *task) begin(now instant) { t.writtenAt, t.waited = now, 0 }

// postpone starts the linger of a task anew, as a newer write has come.
func (t *task) postpone(now instant) {
	milliseconds := (t.waitedFor(now) + instant(time.Millisecond) - 1) / instant(time.Millisecond)
	t.writtenAt, t.waited = now, uint32(min(milliseconds, math.MaxUint32))
}

// needless reports whether nothing is left to do for the task.
func (t *task) needless() bool { return t.first == 0 && t.doubt() == nil && !t.through }

// untried reports whether the task's newest write has not failed yet.
func (t *task) untried() bool { return t.retry == nil || t.retry.attempts == 0 }

// line is a first-in-first-out list of tasks from which any task can be taken out. It
// runs through the tasks, so it takes no memory and never has to grow.
type line struct{ front, back *task }

func (l *line) push(t *task) {
	t.prev, t.next = l.back, nil
	if l.back == nil {
		l.front = t
	} else {
		l.back.next = t
	}
	l.back = t
}

func (l *line) remove(t *task) {
	if t.prev == nil {
		l.front = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.back = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
}

// take appends all tasks of another line.
func (l *line) take(other *line) {
	switch {
	case other.front == nil:
		return
	case l.back == nil:
		*l = *other
	default:
		l.back.next, other.front.prev = other.front, l.back
		l.back = other.back
	}
	*other = line{}
}
