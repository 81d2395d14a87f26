package flush

import (
	"container/heap"
	"math"

	"github.com/botwired/botwired/internal/hashtable"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// noPosition is a position after all announced writes.
const noPosition = math.MaxUint64

// schedule decides which task comes next. Each namespace has a queue, and the queues take turns, so
// that no namespace holds up another (contract 16).
//
// It is not safe for concurrent use. Its methods look at a few tasks, however many there are, with two
// exceptions. [schedule.start] looks at the due tasks of a queue with at most oldestOf tasks.
// [queue.tryNow], which a person asks for, looks at every failed task of a queue.
type schedule struct {
	queues         hashtable.Table[queue, *queue] // by namespace
	turns          turns
	running        map[*task]*attempt
	failingRunning int      // running attempts of failing queues
	probing        *attempt // the probe, while upstream is believed down
	hanging        bool     // the last probe hung
	hoping         *attempt // the attempt beside a probe that hangs: see hopeful
	window         int      // requests that may be in flight: grows after an outage
	sender         *queue   // the queue that began the last attempt
	senderSince    instant  // since when sender is the same queue
	roundTrip      instant  // smoothed round trip
	announced      uint64   // number of writes that the journal has announced
	saved          int64    // announced writes that needed no request, because a newer one replaced them
	pending        int      // tasks with a pending write
	draining       bool     // nothing lingers any more
	notBefore      instant  // nothing is sent before, unless draining: an earlier process's requests may still land
	wakeAt         instant  // when the dispatcher looks again without a signal
	turn           uint64
	quotas         *quota.Quotas
	// fresh is the queue that an untried task joined last. A probe comes from there if it can: a task
	// that has failed may itself be the problem.
	fresh *queue
	// onSooner is called when a queue becomes ready before wakeAt.
	onSooner func()
}

func newSchedule(window int, onSooner func()) *schedule {
	return &schedule{running: make(map[*task]*attempt), window: window, roundTrip: instant(firstRoundTrip), onSooner: onSooner}
}

// find returns the entry's queue and task; the task is nil if there is none.
func (s *schedule) find(id journal.ID) (*queue, *task) {
	q := s.queues.Get(id.Namespace)
	if q == nil {
		return nil, nil
	}
	return q, q.tasks.Get(id.Key)
}

// ensure returns the entry's queue and task, and makes them if necessary. The caller enqueues a new
// task.
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

// written schedules a write that the journal has announced.
func (s *schedule) written(c journal.Change, linger, now instant) {
	q, t, made := s.ensure(c.ID)
	if c.Seq < t.seq { // guard 12.4
		return
	}
	t.seq = c.Seq
	s.announced++
	saves := t.saves(s.running[t])
	if saves {
		s.saved++
	}
	if t.first == 0 {
		t.first = s.announced
		s.pending++
		q.pending++
	}
	if q.linger != linger {
		q.linger = linger
		s.place(q)
	}
	if q.renew(s.quotas, now); q.pace.limited {
		s.place(q)
		if saves {
			s.quotas.Save(c.Namespace)
		}
	}
	lingers := !made && !t.running && !t.retrying() && !q.isUrgent(t)
	removes := t.removes || (q.pace.limited || q.full) && c.Op == journal.Delete
	postponed := lingers && (removes != t.removes || t.waitedFor(now)+linger <= lingerCap*linger) // guard 12.8
	if postponed {
		q.leave(t)
	}
	t.removes = removes
	switch {
	case t.running:
		if a := s.running[t]; a.newer == 0 { // guard 12.1
			a.newer = s.announced
			t.begin(now)
		}
	case made:
		t.begin(now)
		s.enqueue(q, t, now)
	case t.retrying():
		heap.Fix(&q.retries[t.retry.waiting], t.retry.index)
	case postponed:
		s.enqueue(q, t, now)
	}
}

// enqueue puts a task into the line or heap where it belongs.
func (s *schedule) enqueue(q *queue, t *task, now instant) {
	t.urgent = t.urgent || s.draining
	switch {
	case t.retry != nil && t.retry.at != 0:
		heap.Push(&q.retries[t.retry.waiting], t.retry)
	case q.isUrgent(t):
		q.urgent.push(t)
	case t.removes:
		t.postpone(now)
		q.removing.push(t)
	default:
		t.postpone(now)
		q.lingering.push(t)
	}
	if !t.retrying() && t.untried() {
		s.fresh = q
	}
	s.place(q)
}

// isOpen reports whether a request of the task's entry may still land.
func (s *schedule) isOpen(t *task, now instant) bool { return s.notBefore > now || t.openUntil() > now }

// lastTry makes the tasks of a queue due that wait for the end of their windows: the process is about to end.
func (s *schedule) lastTry(q *queue, now instant) {
	q.inWindow(now, func(r *retryState) { r.at = atOnce })
	heap.Init(&q.retries[backingOff])
	heap.Init(&q.retries[silent])
	s.place(q)
}

// expedite makes all tasks waiting in a queue's lines urgent.
func (s *schedule) expedite(q *queue) {
	q.urgentUpTo = s.announced
	q.urgent.take(&q.removing)
	q.urgent.take(&q.lingering) // guard 18.2
	s.place(q)
}

// expediteTask makes one task urgent.
func (s *schedule) expediteTask(q *queue, t *task) {
	lingers := !t.running && !t.retrying() && !q.isUrgent(t)
	if lingers {
		q.leave(t)
	}
	t.urgent = true
	if lingers {
		q.urgent.push(t)
		s.place(q)
	}
}

// start begins an attempt at a due task of the queue. A probe takes a task that has not failed, if the
// fresh queue has one that is due.
func (s *schedule) start(q *queue, now instant, probe bool) *attempt {
	t := q.first()
	if f := s.fresh; probe && f != nil && !f.blocked {
		if untried := f.untried(); untried != nil && untried.untried() && f.ready(untried) <= now {
			q, t = f, untried
		}
	}
	// guard 15.17
	if q.full && q.blocked && q.removing.front != nil && q.ready(q.removing.front) <= now {
		t = q.removing.front // a delete makes room
	}
	if !probe && !q.blocked && !q.pace.spread { // guard 18.10
		// guard 10.19
		t = q.choose(now)
	}
	a := &attempt{queue: q, task: t, newest: t.seq, startedAt: now, probe: probe, trial: q.blocked, silent: t.isSilent(), early: s.isOpen(t, now)}
	q.leave(t)
	a.charge(s.quotas, now)
	s.begin(a)
	return a
}

// begin records the start of an attempt. Its task is in no line.
func (s *schedule) begin(a *attempt) {
	q := a.queue
	a.task.running = true
	s.running[a.task] = a
	q.running++
	if q.failing {
		s.failingRunning++
	}
	if a.silent {
		q.silent++
	}
	s.turn++
	q.served = s.turn
	q.servedAt = a.startedAt
	if s.sender != q {
		s.sender, s.senderSince = q, a.startedAt
	}
	s.place(q)
}

// stop ends an attempt. Its task is in no line afterwards.
func (s *schedule) stop(a *attempt, now instant) {
	q := a.queue
	if a.silent {
		q.silent--
	}
	if q.failing {
		s.failingRunning--
	}
	switch a {
	case s.hoping:
		s.hoping = nil
	case s.probing:
		s.probing, s.hanging = nil, s.hung(a, now)
	}
	a.task.running = false
	delete(s.running, a.task)
	if a.ended != nil {
		close(a.ended)
	}
	q.running--
	if a.flying {
		s.quotas.Landed(q.Key())
	}
	q.renew(s.quotas, now)
	s.place(q)
}

// complete records that a stopped task's writes up to seq are complete. It returns the range of
// positions that are no longer pending. If left is true, the task has more to do, and the caller
// enqueues it.
func (s *schedule) complete(a *attempt, seq uint64, now instant) (from, to uint64, left bool) {
	q, t := a.queue, a.task
	from = t.first
	if t.seq > seq { // guard 12.2
		t.first = a.newer
		return from, t.first, true
	}
	if from != 0 {
		s.pending--
		q.pending--
	}
	if t.first = 0; !t.needless(now) {
		return from, noPosition, true
	}
	s.drop(q, t)
	return from, noPosition, false
}

// drop deletes a task that is in no line, and its queue if that is now empty.
func (s *schedule) drop(q *queue, t *task) {
	q.tasks.Delete(t.Key())
	s.place(q)
	s.discard(q)
}

// discard deletes an empty queue, unless its namespace is blocked.
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
	if s.sender == q {
		s.sender = nil
	}
	if s.queues.Len() == 0 {
		s.queues = hashtable.Table[queue, *queue]{}
	}
}

// unblock removes all restrictions that upstream's answers put on a namespace.
func (s *schedule) unblock(q *queue) {
	q.blocked, q.paused, q.throttled, q.refusing, q.full, q.backoff, q.notBefore = false, "", "", false, false, nil, 0
	s.place(q)
}

// place updates a queue's position in the order of turns. A queue that was just served comes after the
// others, however long its next task has been due.
func (s *schedule) place(q *queue) {
	h := &s.turns.well
	if q.failing {
		h = &s.turns.failing
	}
	t := q.first()
	waits := t != nil && (!q.blocked || q.running == 0)
	if q.index >= 0 && (!waits || q.in != h) {
		heap.Remove(q.in, q.index)
	}
	if !waits {
		return
	}
	q.readyAt = max(q.ready(t), q.notBefore, q.servedAt) // guard 16.6
	if q.in = h; q.index < 0 {
		heap.Push(h, q)
	} else {
		heap.Fix(h, q.index)
	}
	if q.readyAt < s.wakeAt { // guard 18.1
		s.wakeAt = q.readyAt
		s.onSooner()
	}
}
