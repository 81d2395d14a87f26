package schedule

import (
	"math"
	"time"

	"github.com/botwired/botwired/internal/hashtable"
)

// lingerCap bounds the wait of an entry's oldest unsent write, in lingers. Without it, a busy entry
// would be postponed forever.
const lingerCap = 10

// task is the work for one entry: a pending write, or the end of its late window. There may be a million:
// a task takes 80 bytes, and retry holds the fields that few tasks need.
type task struct {
	hashtable.Node[task] // in its queue's table, by the entry's key

	seq uint64 // of the newest known write; 0 if the journal has announced none
	// first is the position, among all announced writes, of the entry's oldest pending one; 0: none.
	first     uint64
	writtenAt Instant     // when the write came that last postponed the task
	prev      *task       // in its line
	next      *task       // in its line
	retry     *retryState // nil until something fails
	waited    uint32      // the oldest unsent write's wait at writtenAt, in milliseconds
	running   bool        // a request is in flight, and the task is in no line
	urgent    bool        // a caller waits for this entry: no linger
	deletes   bool        // the newest known write is a delete
}

// waitedFor returns how long the oldest unsent write has waited.
func (t *task) waitedFor(now Instant) Instant {
	return Instant(time.Duration(t.waited)*time.Millisecond) + now - t.writtenAt
}

// begin starts the linger of a task whose earlier writes were all sent.
func (t *task) begin(now Instant) { t.writtenAt, t.waited = now, 0 }

// postpone restarts the linger of a task, as a newer write has come.
func (t *task) postpone(now Instant) {
	milliseconds := (t.waitedFor(now) + Instant(time.Millisecond) - 1) / Instant(time.Millisecond)
	t.writtenAt, t.waited = now, uint32(min(milliseconds, math.MaxUint32))
}

// windowEnd returns the end of the entry's late window: nothing that was sent can land any more then; 0 if all was answered.
func (t *task) windowEnd() Instant {
	if t.retry == nil {
		return 0
	}
	return t.retry.windowEnd
}

// isLeft reports whether the task is left to the next start.
func (t *task) isLeft() bool { return t.retry != nil && t.retry.isLeft }

// needless reports whether the task has nothing left to do.
func (t *task) needless(now Instant) bool { return t.first == 0 && t.windowEnd() <= now }

// puts reports whether the task has a put to send, as far as it is known.
func (t *task) puts() bool { return t.first != 0 && !t.deletes }

// untried reports whether no attempt has failed since the last success.
func (t *task) untried() bool { return t.retry == nil || t.retry.attempts == 0 }

// line is a first-in-first-out list that any task can be removed from. Its links are in the tasks, so
// it takes no memory of its own.
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
