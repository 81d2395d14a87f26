package upstream

import (
	"container/heap"
	"time"

	"github.com/botwired/botwired/journal"
)

// lingerCap is how many lingers an entry's first unsent write waits at most for
// newer ones: without it a busy key would postpone itself for ever.
const lingerCap = 10

// instant is a time on the flusher's own monotonic clock, always above zero: a third
// of the size of a time.Time, of which every task holds several.
type instant time.Duration

// task is an entry with a pending write, as the flusher sees it. There may be a
// million of them, so what few need is behind one pointer.
type task struct {
	key     string
	space   *space
	seq     uint64  // of the newest write known
	firstAt instant // when the oldest write that was never sent came; 0 if all were
	lastAt  instant // when the newest came
	due     instant // position in the space's heap
	trouble *trouble
	index   int32 // -1 while not in it
	hurry   bool  // somebody waits for it: no linger
	running bool  // a request is under way
	probe   bool  // it is the probe of an outage
	trial   bool  // it shows whether the namespace is let in again
	orderly bool  // it counts in its namespace's orderly
}

// trouble is what a task needs only when not all went well.
type trouble struct {
	retryAt  instant // nothing is sent before: a backoff, a settle time, a read-back
	attempts int
	text     string // why the last attempt failed
	backoff  interface{ NextBackOff() time.Duration }
	doubt    *doubt // not nil while unanswered requests may land
}

func (t *task) id() journal.ID { return journal.ID{Namespace: t.space.name, Key: t.key} }

// doubt is nil when every request was answered.
func (t *task) doubt() *doubt {
	if t.trouble == nil {
		return nil
	}
	return t.trouble.doubt
}

// troubled returns the task's trouble, made if need be.
func (t *task) troubled() *trouble {
	if t.trouble == nil {
		t.trouble = &trouble{}
	}
	return t.trouble
}

// untried reports whether the task's write was not attempted, or not in vain.
func (t *task) untried() bool { return t.trouble == nil || t.trouble.attempts == 0 }

// space is a namespace's tasks.
type space struct {
	name      string
	tasks     map[string]*task // by key
	waiting   heapOf[*task]
	running   int
	orderly   int     // of those running, that have not failed before
	orderlyAt instant // when the last of them was sent
	notBefore instant // the namespace waits: Limited or Paused
	blocked   bool    // one request at a time until one goes through
	paused    string  // why it is Paused; empty if it is not
	backoff   interface{ NextBackOff() time.Duration }

	readyAt  instant // position in the schedule's heap
	servedAt instant // when it was last served
	served   uint64  // the turn in which it was
	index    int     // -1 while not in it
}

// schedule decides which task comes next. Each namespace has a queue in order of due
// time, and the namespaces take turns, so that none holds up another (contract 16).
// A task is in its namespace's queue unless it is running. It is not safe for
// concurrent use.
type schedule struct {
	spaces map[string]*space
	ready  heapOf[*space]
	turn   uint64
	// fresh is the task that came into line last without a failure, nil if it is
	// gone: the best probe, as those that have failed may be sick themselves.
	fresh *task
}

func newSchedule() *schedule { return &schedule{spaces: make(map[string]*space)} }

// find returns the entry's task, nil if there is none.
func (s *schedule) find(id journal.ID) *task {
	if sp := s.spaces[id.Namespace]; sp != nil {
		return sp.tasks[id.Key]
	}
	return nil
}

// task returns the entry's task, made if need be. A new one has to be put in line.
func (s *schedule) task(id journal.ID) *task {
	sp := s.spaces[id.Namespace]
	if sp == nil {
		sp = &space{name: id.Namespace, tasks: make(map[string]*task), index: -1}
		s.spaces[id.Namespace] = sp
	}
	t := sp.tasks[id.Key]
	if t == nil {
		t = &task{key: id.Key, space: sp, index: -1}
		sp.tasks[id.Key] = t
	}
	return t
}

// wait puts a task in line for its due time, or moves it there.
func (s *schedule) wait(t *task, linger time.Duration) {
	t.due = t.dueAt(instant(linger))
	if t.index < 0 {
		heap.Push(&t.space.waiting, t)
	} else {
		heap.Fix(&t.space.waiting, int(t.index))
	}
	if t.untried() {
		s.fresh = t
	}
	s.place(t.space)
}

func (t *task) dueAt(linger instant) instant {
	var due instant
	if t.firstAt != 0 && !t.hurry {
		due = min(t.lastAt+linger, t.firstAt+lingerCap*linger)
	}
	if t.trouble != nil {
		due = max(due, t.trouble.retryAt)
	}
	return due
}

// remove forgets a task that is in no line, and its namespace if there is nothing to
// remember of it.
func (s *schedule) remove(t *task) {
	if s.fresh == t {
		s.fresh = nil
	}
	sp := t.space
	delete(sp.tasks, t.key)
	if len(sp.tasks) > 0 || sp.blocked {
		return
	}
	delete(s.spaces, sp.name)
}

// readyAt is when the first task is due; ok is false if none is waiting.
func (s *schedule) readyAt() (at instant, ok bool) {
	if len(s.ready) == 0 {
		return 0, false
	}
	return s.ready[0].readyAt, true
}

// next takes the task whose turn it is out of the line. There must be one.
func (s *schedule) next(now instant) *task {
	sp := s.ready[0]
	return s.start(heap.Pop(&sp.waiting).(*task), now)
}

// nextProbe is next, with a preference for a task that has not failed.
func (s *schedule) nextProbe(now instant) *task {
	t := s.fresh
	if t == nil || t.index < 0 || t.due > now || !t.untried() || t.space.blocked {
		return s.next(now)
	}
	heap.Remove(&t.space.waiting, int(t.index))
	return s.start(t, now)
}

func (s *schedule) start(t *task, now instant) *task {
	sp := t.space
	t.running, t.trial = true, sp.blocked
	sp.running++
	s.turn++
	sp.served, sp.servedAt = s.turn, now
	if t.orderly = t.untried(); t.orderly {
		sp.orderly++
		sp.orderlyAt = now
	}
	s.place(sp)
	return t
}

// done ends a task's turn; it is in no line now.
func (s *schedule) done(t *task) {
	if t.orderly {
		t.space.orderly--
	}
	t.running, t.probe, t.trial, t.orderly = false, false, false, false
	t.space.running--
	s.place(t.space)
}

// unblock lets a namespace send as it likes.
func (s *schedule) unblock(sp *space) {
	sp.blocked, sp.paused, sp.backoff, sp.notBefore = false, "", nil, 0
	s.place(sp)
}

// A namespace with little to send sends it one after the other, so that upstream sees
// the writes of an agent in the order in which they were made, and lists them so.
const (
	// orderlyTasks is how many entries are little: beyond it, a namespace uses all of
	// the concurrency there is.
	orderlyTasks = 16
	// orderlyFor is how long a request may keep the next one from being sent: some
	// round trips. One that has failed before keeps up none, as its entry may be sick.
	orderlyFor = 250 * time.Millisecond
)

// place puts a namespace where its next task belongs. One that was just served comes
// after those that were not: its position is when it was served, not how long its
// next task has been due.
func (s *schedule) place(sp *space) {
	if len(sp.waiting) == 0 || (sp.blocked && sp.running > 0) {
		if sp.index >= 0 {
			heap.Remove(&s.ready, sp.index)
		}
		return
	}
	sp.readyAt = max(sp.waiting[0].due, sp.notBefore, sp.servedAt)
	if sp.orderly > 0 && len(sp.tasks) <= orderlyTasks {
		sp.readyAt = max(sp.readyAt, sp.orderlyAt+instant(orderlyFor))
	}
	if sp.index < 0 {
		heap.Push(&s.ready, sp)
	} else {
		heap.Fix(&s.ready, sp.index)
	}
}
