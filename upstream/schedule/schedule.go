package schedule

import (
	"container/heap"
	"math"

	"time"

	"github.com/botwired/botwired/internal/hashtable"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// noPosition is a position after all announced writes.
const noPosition = math.MaxUint64

// Options configures a schedule.
type Options struct {
	// Concurrency is the number of requests that may be in flight at first.
	Concurrency int
	// Terms returns when the quota of a namespace admits its writes. pending is how many of these wait. Terms is nil if
	// no namespace has a quota.
	Terms func(namespace string, linger time.Duration, pending int) quota.Terms
	// Wake is called, amid any method, when something becomes due before the time for which Next has said to wait.
	Wake func()
}

// Schedule decides which entry is sent next. Each namespace has a queue, and the queues take turns, so
// that no namespace holds up another (contract 16).
//
// It is not safe for concurrent use. Its methods look at a few tasks, however many there are, with two
// exceptions. [Schedule.Next] looks at the due tasks of a queue with at most oldestOf tasks.
// [Schedule.TryNow], which a person asks for, looks at every failed task of a queue.
type Schedule struct {
	queues         hashtable.Table[Queue, *Queue] // by namespace
	turns          turns
	running        map[*task]*Attempt
	failingRunning int      // running attempts of failing queues
	probing        *Attempt // the probe, while upstream is believed down
	hanging        bool     // the last probe hung
	hoping         *Attempt // the attempt beside a probe that hangs: see hopeful
	concurrency    int      // requests that may be in flight: grows after an outage
	sender         *Queue   // the queue that began the last attempt
	senderSince    Instant  // since when sender is the same queue
	roundTrip      Instant  // smoothed round trip
	announced      uint64   // number of writes that the journal has announced
	saved          int64    // announced writes that needed no request, because a newer one replaced them
	pending        int      // tasks with a pending write
	draining       bool     // nothing lingers any more
	notBefore      Instant  // nothing is sent before, unless draining: an earlier process's requests may still land
	wakeAt         Instant  // when the dispatcher looks again without a signal
	turn           uint64
	terms          func(namespace string, linger time.Duration, pending int) quota.Terms
	// fresh is the queue that an untried task joined last. A probe comes from there if it can: a task
	// that has failed may itself be the problem.
	fresh *Queue
	// wake is Options.Wake: it is called when a queue becomes ready before wakeAt.
	wake func()
}

// New returns an empty schedule.
func New(opts Options) *Schedule {
	return &Schedule{
		running: make(map[*task]*Attempt), concurrency: opts.Concurrency, roundTrip: Instant(firstRoundTrip), terms: opts.Terms, wake: opts.Wake,
	}
}

// find returns the entry's queue and task; the task is nil if there is none.
func (s *Schedule) find(id journal.ID) (*Queue, *task) {
	q := s.queues.Get(id.Namespace)
	if q == nil {
		return nil, nil
	}
	return q, q.tasks.Get(id.Key)
}

// ensure returns the entry's queue and task, and makes them if necessary. The caller enqueues a new
// task.
func (s *Schedule) ensure(id journal.ID) (q *Queue, t *task, made bool) {
	if q = s.queues.Get(id.Namespace); q == nil {
		q = &Queue{index: -1}
		s.queues.Insert(id.Namespace, q)
	}
	if t = q.tasks.Get(id.Key); t == nil {
		t, made = &task{}, true
		q.tasks.Insert(id.Key, t)
	}
	return q, t, made
}

// Written schedules a write that the journal has announced. It reports whether the write saves one of a namespace with
// a quota: it takes the place of a write that was never sent.
func (s *Schedule) Written(c journal.Change, linger, now Instant) (saves bool) {
	q, t, made := s.ensure(c.ID)
	if c.Seq < t.seq { // guard 12.4
		return false
	}
	deletes := c.Op == journal.Delete
	moves := !made && !t.running && !t.isLeft() && t.puts() == deletes // to the other side
	lingers := !made && !t.running && !t.retrying() && !t.isLeft() && !q.isUrgent(t)
	postponed := lingers && t.waitedFor(now)+linger <= lingerCap*linger // guard 12.8
	if moves || postponed {
		q.remove(t)
	}
	switch {
	case !moves:
	case lingers && !postponed: // it has waited long enough, and the other line is in order of the newest writes
		r := retryOf(t)
		r.waiting, r.at = backingOff, AtOnce // guard 12.9
	// guard 18.47
	case deletes && q.full != "" && t.retry != nil && t.retry.at != 0: // its put has waited for room
		t.retry.at = max(AtOnce, t.retry.windowEnd)
	}
	t.seq = c.Seq
	s.announced++
	if saves = t.saves(s.running[t]); saves {
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
	if s.renew(q, now); q.pace.limited {
		s.place(q)
	}
	t.deletes = deletes
	switch {
	case t.running:
		if a := s.running[t]; a.newer == 0 { // guard 12.1
			a.newer = s.announced
			t.begin(now)
		}
	case made:
		t.begin(now)
		s.enqueue(q, t, now)
	case moves, postponed:
		s.enqueue(q, t, now)
	case t.retrying():
		heap.Fix(&q.sideOf(t).retries[t.retry.waiting], t.retry.index)
	}
	return saves && q.pace.limited
}

// enqueue puts a task into the line or heap where it belongs.
func (s *Schedule) enqueue(q *Queue, t *task, now Instant) {
	t.urgent = t.urgent || s.draining
	on := q.sideOf(t)
	switch {
	case t.retry != nil && t.retry.at != 0:
		heap.Push(&on.retries[t.retry.waiting], t.retry)
	case q.isUrgent(t):
		on.urgent.push(t)
	default:
		t.postpone(now)
		on.lingering.push(t)
	}
	if !t.retrying() && t.untried() {
		s.fresh = q
	}
	s.place(q)
}

// inWindow reports whether the task's entry is inside a late window, as an earlier request may still land.
func (s *Schedule) inWindow(t *task, now Instant) bool {
	return s.notBefore > now || t.windowEnd() > now || t.isLeft()
}

// SendOnceMore makes the tasks of a queue due that wait for the end of their windows: the process is about to end. It
// looks at every failed task of the queue.
func (s *Schedule) SendOnceMore(q *Queue, now Instant) {
	q.eachInWindow(now, func(r *retryState) { r.at = AtOnce })
	for _, on := range q.sides() {
		for kind := range on.retries {
			heap.Init(&on.retries[kind])
		}
	}
	s.place(q)
}

// Expedite makes all tasks waiting in a queue's lines urgent.
func (s *Schedule) Expedite(q *Queue) {
	q.urgentUpTo = s.announced
	for _, on := range q.sides() {
		on.urgent.take(&on.lingering) // guard 18.2
	}
	s.place(q)
}

// ExpediteEntry makes one entry's task urgent. It returns false if nothing of the entry is pending.
func (s *Schedule) ExpediteEntry(id journal.ID) bool {
	q, t := s.find(id)
	if t == nil || t.first == 0 {
		return false
	}
	lingers := !t.running && !t.retrying() && !t.isLeft() && !q.isUrgent(t)
	if lingers {
		q.remove(t)
	}
	t.urgent = true
	if lingers {
		q.sideOf(t).urgent.push(t)
		s.place(q)
	}
	return true
}

// drop deletes a task that is in no line, and its queue if that is now empty.
func (s *Schedule) drop(q *Queue, t *task) {
	q.tasks.Delete(t.Key())
	s.place(q)
	s.discard(q)
}

// discard deletes an empty queue, unless its namespace is blocked.
func (s *Schedule) discard(q *Queue) {
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
		s.queues = hashtable.Table[Queue, *Queue]{}
	}
}

// place updates a queue's position in the order of turns, and wakes the caller if the queue is served sooner now. A queue
// that was just served comes after the others, however long its next task has been due.
func (s *Schedule) place(q *Queue) {
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
		s.wake()
	}
}
