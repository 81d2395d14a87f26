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
	// Window is the number of requests that may be in flight at first.
	Window int
	// Terms returns when the quota of a namespace admits its writes. pending is how many of these wait. Terms is nil if
	// no namespace has a quota.
	Terms func(namespace string, linger time.Duration, pending int) quota.Terms
	// OnSooner is called when something becomes due before the time for which Next has said to wait.
	OnSooner func()
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
	window         int      // requests that may be in flight: grows after an outage
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
	// onSooner is called when a queue becomes ready before wakeAt.
	onSooner func()
}

// New returns an empty schedule.
func New(opts Options) *Schedule {
	return &Schedule{
		running: make(map[*task]*Attempt), window: opts.Window, roundTrip: Instant(firstRoundTrip), terms: opts.Terms, onSooner: opts.OnSooner,
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
	lingers := !made && !t.running && !t.retrying() && !t.isLeft() && !q.isUrgent(t)
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
	return saves && q.pace.limited
}

// enqueue puts a task into the line or heap where it belongs.
func (s *Schedule) enqueue(q *Queue, t *task, now Instant) {
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
func (s *Schedule) isOpen(t *task, now Instant) bool {
	return s.notBefore > now || t.openUntil() > now || t.isLeft()
}

// SendOnceMore makes the tasks of a queue due that wait for the end of their windows: the process is about to end. It
// looks at every failed task of the queue.
func (s *Schedule) SendOnceMore(q *Queue, now Instant) {
	q.inWindow(now, func(r *retryState) { r.at = AtOnce })
	for kind := range q.retries {
		heap.Init(&q.retries[kind])
	}
	s.place(q)
}

// Expedite makes all tasks waiting in a queue's lines urgent.
func (s *Schedule) Expedite(q *Queue) {
	q.urgentUpTo = s.announced
	q.urgent.take(&q.removing)
	q.urgent.take(&q.lingering) // guard 18.2
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
		q.leave(t)
	}
	t.urgent = true
	if lingers {
		q.urgent.push(t)
		s.place(q)
	}
	return true
}

// start begins an attempt at a due task of the queue. A probe takes a task that has not failed, if the
// fresh queue has one that is due.
func (s *Schedule) start(q *Queue, now Instant, probe bool) *Attempt {
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
	a := &Attempt{
		Newest: t.seq, Probe: probe, Trial: q.blocked, Early: s.isOpen(t, now), Counts: t.first != 0, Kind: q.kindOf(t),
		queue: q, task: t, startedAt: now, silent: t.isSilent(), removes: t.removes,
	}
	q.leave(t)
	t.removes = false
	s.begin(a)
	return a
}

// begin records the start of an attempt. Its task is in no line.
func (s *Schedule) begin(a *Attempt) {
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
func (s *Schedule) stop(a *Attempt, now Instant) {
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
	s.renew(q, now)
	s.place(q)
}

// complete records that a stopped task's writes up to seq are complete. It returns the range of
// positions that are no longer pending. If left is true, the task has more to do, and the caller
// enqueues it.
func (s *Schedule) complete(a *Attempt, seq uint64, now Instant) (from, to uint64, left bool) {
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

// LetIn ends all restrictions that upstream's answers put on the attempt's namespace, if the attempt is a trial.
func (s *Schedule) LetIn(a *Attempt) {
	if !a.Trial {
		return
	}
	q := a.queue
	q.blocked, q.paused, q.throttled, q.refusing, q.full, q.backoff, q.notBefore = false, "", "", false, false, nil, 0
	s.place(q)
}

// place updates a queue's position in the order of turns. A queue that was just served comes after the
// others, however long its next task has been due.
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
		s.onSooner()
	}
}
