package upstream

import (
	"container/heap"
	"time"

	"github.com/botwired/botwired/journal"
)

// lingerCap is how many lingers an entry's first unsent write waits at most for
// newer ones: without it a busy key would postpone itself for ever.
const lingerCap = 10

// task is an entry with a pending write, as the flusher sees it.
type task struct {
	id      journal.ID
	space   *space
	seq     uint64    // of the newest write known
	firstAt time.Time // when the oldest write that was never sent came
	lastAt  time.Time // when the newest came
	retryAt time.Time // nothing is sent before: a backoff, a settle time, a read-back
	hurry   bool      // somebody waits for it: no linger

	running  bool // a request is under way
	attempts int
	lastText string // why the last attempt failed
	backoff  interface{ NextBackOff() time.Duration }
	doubt    *doubt // not nil while unanswered requests may land

	due   time.Time // position in the space's heap
	index int       // -1 while not in it
}

// space is a namespace's tasks.
type space struct {
	name      string
	waiting   taskHeap
	running   int
	notBefore time.Time // the namespace waits: Limited or Paused
	blocked   bool      // one request at a time until one goes through
	paused    string    // why it is Paused; empty if it is not
	backoff   interface{ NextBackOff() time.Duration }

	readyAt  time.Time // position in the schedule's heap
	servedAt time.Time // when it was last served
	served   uint64    // the turn in which it was
	index    int       // -1 while not in it
}

// schedule decides which task comes next. Each namespace has a queue in order of due
// time, and the namespaces take turns, so that none holds up another (contract 16).
// It is not safe for concurrent use.
type schedule struct {
	tasks  map[journal.ID]*task
	spaces map[string]*space
	ready  spaceHeap
	turn   uint64
}

func newSchedule() *schedule {
	return &schedule{tasks: make(map[journal.ID]*task), spaces: make(map[string]*space)}
}

// task returns the entry's task, made if need be.
func (s *schedule) task(id journal.ID) *task {
	if t := s.tasks[id]; t != nil {
		return t
	}
	sp := s.spaces[id.Namespace]
	if sp == nil {
		sp = &space{name: id.Namespace, index: -1}
		s.spaces[id.Namespace] = sp
	}
	t := &task{id: id, space: sp, index: -1}
	s.tasks[id] = t
	return t
}

// wait puts a task in line for its due time, or moves it there.
func (s *schedule) wait(t *task, linger time.Duration) {
	t.due = t.dueAt(linger)
	if t.index < 0 {
		heap.Push(&t.space.waiting, t)
	} else {
		heap.Fix(&t.space.waiting, t.index)
	}
	s.place(t.space)
}

func (t *task) dueAt(linger time.Duration) time.Time {
	due := t.lastAt.Add(linger)
	if end := t.firstAt.Add(lingerCap * linger); due.After(end) {
		due = end
	}
	if t.hurry {
		due = time.Time{}
	}
	return latest(due, t.retryAt)
}

func latest(times ...time.Time) time.Time {
	out := times[0]
	for _, t := range times[1:] {
		if t.After(out) {
			out = t
		}
	}
	return out
}

// remove forgets a task that is in no line.
func (s *schedule) remove(t *task) {
	delete(s.tasks, t.id)
	s.dropIfIdle(t.space)
}

// dropIfIdle forgets a namespace that has nothing to do and nothing to remember.
func (s *schedule) dropIfIdle(sp *space) {
	if sp.running > 0 || len(sp.waiting) > 0 || sp.blocked {
		return
	}
	if sp.index >= 0 {
		heap.Remove(&s.ready, sp.index)
	}
	delete(s.spaces, sp.name)
}

// readyAt is when the first task is due; ok is false if none is waiting.
func (s *schedule) readyAt() (at time.Time, ok bool) {
	if len(s.ready) == 0 {
		return time.Time{}, false
	}
	return s.ready[0].readyAt, true
}

// next takes the task whose turn it is out of the line. There must be one.
func (s *schedule) next(now time.Time) *task {
	sp := s.ready[0]
	t := heap.Pop(&sp.waiting).(*task)
	t.running = true
	sp.running++
	s.turn++
	sp.served, sp.servedAt = s.turn, now
	s.place(sp)
	return t
}

// done ends a task's turn; it is in no line now.
func (s *schedule) done(t *task) {
	t.running = false
	t.space.running--
	s.place(t.space)
}

// unblock lets a namespace send as it likes.
func (s *schedule) unblock(sp *space) {
	if !sp.blocked {
		return
	}
	sp.blocked, sp.paused, sp.backoff, sp.notBefore = false, "", nil, time.Time{}
	s.place(sp)
}

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
	sp.readyAt = latest(sp.waiting[0].due, sp.notBefore, sp.servedAt)
	if sp.index < 0 {
		heap.Push(&s.ready, sp)
	} else {
		heap.Fix(&s.ready, sp.index)
	}
}

// taskHeap is ordered by due time, then by age.
type taskHeap []*task

func (h taskHeap) Len() int { return len(h) }

func (h taskHeap) Less(i, k int) bool {
	if h[i].due.Equal(h[k].due) {
		return h[i].seq < h[k].seq
	}
	return h[i].due.Before(h[k].due)
}

func (h taskHeap) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].index, h[k].index = i, k
}

func (h *taskHeap) Push(x any) {
	t := x.(*task)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *taskHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}

// spaceHeap is ordered by ready time, then by turns.
type spaceHeap []*space

func (h spaceHeap) Len() int { return len(h) }

func (h spaceHeap) Less(i, k int) bool {
	if h[i].readyAt.Equal(h[k].readyAt) {
		return h[i].served < h[k].served
	}
	return h[i].readyAt.Before(h[k].readyAt)
}

func (h spaceHeap) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].index, h[k].index = i, k
}

func (h *spaceHeap) Push(x any) {
	sp := x.(*space)
	sp.index = len(*h)
	*h = append(*h, sp)
}

func (h *spaceHeap) Pop() any {
	old := *h
	sp := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	sp.index = -1
	return sp
}
