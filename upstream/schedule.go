package upstream

import (
	"math"

	"github.com/botwired/botwired/internal/hashtable"
	"github.com/botwired/botwired/journal"
)

// noPosition is behind all writes that are ever announced.
const noPosition = math.MaxUint64

// schedule decides which task comes next. Each namespace has a queue in order of due
// time, and the queues take turns, so that no namespace holds up another (contract 16).
//
// It is not safe for concurrent use. No method but [schedule.expediteSome] looks at more
// than a few tasks, however many there are.
type schedule struct {
	queues    hashtable.Table[queue, *queue] // by namespace
	ready     heapOf[*queue]
	running   map[*task]*attempt
	announced uint64 // how many writes the journal has announced
	pending   int    // tasks with a write
	draining  bool   // nothing lingers any more
	turn      uint64
	// fresh is the queue that an untried task has joined last: the best place for a
	// probe to come from, as tasks that have failed may be sick themselves.
	fresh *queue
	// onSooner is called when something is due earlier than all was before.
	onSooner func()
}

func newSchedule(onSooner func()) *schedule {
	return &schedule{running: make(map[*task]*attempt), onSooner: onSooner}
}

// find returns the entry's task and its queue; nil if there is none.
func (s *schedule) find(id journal.ID) (*queue, *task) {
	q := s.queues.Get(id.Namespace)
	if q == nil {
		return nil, nil
	}
	return q, q.tasks.Get(id.Key)
}

// ensure returns the entry's task and its queue. A task that was made has to be put in
// line.
func (s *schedule) ensure(id journal.ID) (q *queue, t *task, made bool) {
	if q = s.queues.Get(id.Namespace); q == nil {
		q = &queue{index: -1}
		s.queues.Insert(id.Namespace, q)
	}
	if t = q.tasks.Get(id.Key); t == nil {
		t, made = &task{}, true
		q.tasks.Insert(id.Key, t)
	}
	return q, t, made
}

// written takes in a write that the journal announces.
func (s *schedule) written(id journal.ID, seq uint64, linger, now instant) {
	q, t, made := s.ensure(id)
	if seq < t.seq {
		return
	}
	t.seq = seq
	s.announced++
	if t.first == 0 {
		t.first = s.announced
		s.pending++
		q.pending++
	}
	if q.linger != linger {
		q.linger = linger
		s.place(q)
	}
	switch {
	case t.running:
		s.running[t].newerWrite(s.announced, now)
	case made:
		t.begin(now)
		s.enqueue(q, t, now)
	case t.retrying():
		if d := t.retry.doubt; d != nil && d.confirmed != nil {
			// The task waited for a read-back, and the newer write need not.
			q.leave(t)
			t.retry.at = 0
			t.begin(now)
			s.enqueue(q, t, now)
			break
		}
		q.retries.fix(t.retry.index)
	case !q.isUrgent(t) && t.waitedFor(now)+linger <= lingerCap*linger:
		q.lingering.remove(t)
		s.enqueue(q, t, now)
	}
}

// enqueue puts a task in line.
func (s *schedule) enqueue(q *queue, t *task, now instant) {
	t.urgent = t.urgent || s.draining
	switch {
	case t.retry != nil && t.retry.at != 0:
		q.retries.push(t.retry)
	case q.isUrgent(t):
		q.urgent.push(t)
	default:
		t.postpone(now)
		q.lingering.push(t)
	}
	if !t.retrying() && t.untried() {
		s.fresh = q
	}
	s.place(q)
}

// doubtful makes an entry's task wait: an earlier process did not see the answer to one of
// its requests.
func (s *schedule) doubtful(id journal.ID, until, now instant) {
	q, t, made := s.ensure(id)
	if !made {
		q.leave(t)
	}
	r := retryOf(t)
	r.doubt, r.at = &doubt{unknown: true}, until
	s.enqueue(q, t, now)
}

// expedite makes all that waits in a queue urgent.
func (s *schedule) expedite(q *queue) {
	q.urgentUpTo = s.announced
	q.urgent.take(&q.lingering)
	s.place(q)
}

// expediteTask makes one task urgent.
func (s *schedule) expediteTask(q *queue, t *task) {
	lingers := !t.running && !t.retrying() && !q.isUrgent(t)
	if lingers {
		q.lingering.remove(t)
	}
	t.urgent = true
	if lingers {
		q.urgent.push(t)
		s.place(q)
	}
}

// expediteChunk is how many queues a flush of all namespaces looks at under one hold of
// the lock.
const expediteChunk = 128

// expediteSome makes urgent what waits in some of the queues, from a cursor on that
// begins with 0. The schedule may change between two calls.
func (s *schedule) expediteSome(cursor int) (next int, done bool) {
	return s.queues.Walk(cursor, expediteChunk, s.expedite)
}

// readyAt is when the first task is due; ok is false if none is waiting.
func (s *schedule) readyAt() (at instant, ok bool) {
	if s.ready.len == 0 {
		return 0, false
	}
	return s.ready.first().readyAt, true
}

// start takes the task whose turn it is out of its line. There must be one. A probe is
// made by a task that has not failed, if one is due.
func (s *schedule) start(now instant, probe bool) *attempt {
	q := s.ready.first()
	t := q.first(false)
	if f := s.fresh; probe && f != nil && !f.blocked {
		if untried := f.first(true); untried != nil && untried.untried() && f.due(untried) <= now {
			q, t = f, untried
		}
	}
	q.leave(t)
	a := &attempt{queue: q, task: t, newest: t.seq, probe: probe, trial: q.blocked, inOrder: t.untried()}
	t.running = true
	s.running[t] = a
	q.running++
	s.turn++
	q.served, q.servedAt = s.turn, now
	if a.inOrder {
		q.inOrder++
		q.inOrderAt = now
	}
	s.place(q)
	return a
}

// stop ends an attempt; its task is in no line now.
func (s *schedule) stop(a *attempt) {
	if a.inOrder {
		a.queue.inOrder--
	}
	a.task.running = false
	delete(s.running, a.task)
	a.queue.running--
	s.place(a.queue)
}

// complete notes that a stopped task's writes up to seq are done with. It returns the
// range of positions that this takes out of the pending ones, and reports whether a newer
// write is left, whose task has to be put in line.
func (s *schedule) complete(a *attempt, seq uint64) (from, to uint64, left bool) {
	q, t := a.queue, a.task
	from = t.first
	if t.seq > seq {
		t.first = a.newer
		return from, t.first, true
	}
	if from != 0 {
		s.pending--
		q.pending--
	}
	q.tasks.Delete(t.Key())
	s.discard(q)
	return from, noPosition, false
}

// discard forgets a queue when there is nothing to remember of its namespace.
func (s *schedule) discard(q *queue) {
	if q.tasks.Len() > 0 {
		return
	}
	q.tasks = hashtable.Table[task, *task]{} // a table does not shrink by itself
	if q.blocked {
		return
	}
	s.queues.Delete(q.Key())
	if s.fresh == q {
		s.fresh = nil
	}
	if s.queues.Len() == 0 {
		s.queues = hashtable.Table[queue, *queue]{}
	}
}

// unblock lets a namespace send as it likes.
func (s *schedule) unblock(q *queue) {
	q.blocked, q.paused, q.backoff, q.notBefore = false, "", nil, 0
	s.place(q)
}

// place puts a queue where its next task belongs. A queue that was just served comes
// after those that were not: its position is when it was served, not how long its next
// task has been due.
func (s *schedule) place(q *queue) {
	before, waiting := s.readyAt()
	t := q.first(false)
	if t == nil || q.blocked && q.running > 0 {
		if q.index >= 0 {
			s.ready.remove(q.index)
		}
		return
	}
	q.readyAt = max(q.due(t), q.notBefore, q.servedAt)
	if q.inOrder > 0 && q.tasks.Len() <= inOrderTasks {
		q.readyAt = max(q.readyAt, q.inOrderAt+instant(inOrderFor))
	}
	if q.index < 0 {
		s.ready.push(q)
	} else {
		s.ready.fix(q.index)
	}
	if after, _ := s.readyAt(); !waiting || after < before {
		s.onSooner()
	}
}
