package schedule

import (
	"container/heap"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/internal/hashtable"
	"github.com/botwired/botwired/journal"
)

// Queue holds the tasks of a namespace. A task that is not running is on one of two sides. Those with a put to send have
// a side of their own, as a short quota or a full namespace lets the others go before.
type Queue struct {
	hashtable.Node[Queue] // in the schedule's table, by namespace

	tasks      hashtable.Table[task, *task] // by key
	pending    int                          // tasks with a pending write
	linger     Instant
	puts       side
	others     side               // deletes, and ends of late windows
	left       map[*task]struct{} // to the next start: they are on no side
	urgentUpTo uint64             // tasks with first up to this position are urgent

	running int
	silent  int // running tasks that were silent
	// silentMore is how many silent tasks beside the first one may run: those that were answered since one hung.
	silentMore int
	failing    bool   // upstream is to blame for the last failure, and no answer has come since
	reason     string // the last such failure

	pace pace // set by the namespace's quota

	notBefore Instant // the namespace is throttled or paused until then
	blocked   bool    // one request at a time until one succeeds
	paused    string  // why the namespace is paused; empty if it is not
	throttled string  // why it is throttled; empty if it is not
	refusing  bool    // paused because upstream refuses one write after another
	backoff   *backoff.ExponentialBackOff

	full      string  // why upstream takes no puts: it has no room for more in the namespace; empty if it takes them
	fullEvery Instant // one of them is tried so often
	putsAt    Instant // while it is full, the next one is tried then

	answeredAt Instant // when upstream last gave a verdict

	readyAt  Instant // key in the schedule's heap
	servedAt Instant // when an attempt last began
	served   uint64  // the turn of that attempt
	hurried  bool    // the last urgent task went before the others
	passed   uint64  // first of the task that others went before
	passedAs uint64  // that task's seq when this began
	in       *heapOf[*Queue]
	index    int // index in that heap; -1: in none
}

// side has a task in one of three places: the urgent line, if it is due; the lingering line; or the retries. A newer
// write moves a task to the back of the lingering line, so the line is ordered by writtenAt, and its front is due first.
// A flush makes all lingering tasks urgent in constant time: it joins the lines, and sets urgentUpTo, which isUrgent
// compares.
type side struct {
	urgent, lingering line
	retries           [waitings]heapOf[*retryState]
}

// sides returns both sides.
func (q *Queue) sides() [2]*side { return [2]*side{&q.others, &q.puts} }

// sideOf returns the task's side.
func (q *Queue) sideOf(t *task) *side {
	if t.puts() {
		return &q.puts
	}
	return &q.others
}

func (q *Queue) id(t *task) journal.ID { return journal.ID{Namespace: q.Key(), Key: t.Key()} }

func (q *Queue) isUrgent(t *task) bool { return t.urgent || t.first <= q.urgentUpTo }

// remove takes a task that is not running out of its line or heap.
func (q *Queue) remove(t *task) {
	switch {
	case t.isLeft():
		t.retry.isLeft = false
		delete(q.left, t)
	case t.retrying():
		heap.Remove(&q.sideOf(t).retries[t.retry.waiting], t.retry.index)
	case q.isUrgent(t):
		q.sideOf(t).urgent.remove(t)
	default:
		q.sideOf(t).lingering.remove(t)
	}
}

// due returns when a task that is not running is due, ignoring the quota and a want of room.
func (q *Queue) due(t *task) Instant {
	switch {
	case t.retrying():
		return t.retry.at
	case q.isUrgent(t):
		return 0
	case t.deletes:
		return t.writtenAt + q.linger
	}
	return q.pace.widened(t.writtenAt, q.linger)
}

// ready returns when the task is due and its turn has come.
func (q *Queue) ready(t *task) Instant {
	at := q.admitted(t)
	if q.full != "" && t.puts() { // guard 18.41
		at = max(at, q.putsAt)
	}
	return at
}

// admitted returns when the task is due and the namespace's quota admits it.
func (q *Queue) admitted(t *task) Instant { return max(q.due(t), q.turnOf(t)) }

// untried returns the task outside the retries that is ready first; nil if there is none.
func (q *Queue) untried() *task {
	return q.sooner(q.firstIn(q.others.urgent, q.others.lingering), q.firstIn(q.puts.urgent, q.puts.lingering))
}

// first returns the task that is ready first. It returns nil if none waits, or if only silent ones wait
// while as many of these are tried as may be.
func (q *Queue) first() *task { return q.sooner(q.firstOn(&q.others), q.firstOn(&q.puts)) }

// sooner returns the task that is ready first. Of two that are, it is the urgent one, or else the one with the older write.
// Both may be nil.
func (q *Queue) sooner(a, b *task) *task {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case q.ready(a) != q.ready(b):
		if q.ready(b) < q.ready(a) {
			return b
		}
	case q.isUrgent(a) != q.isUrgent(b):
		if q.isUrgent(b) {
			return b
		}
	case b.first < a.first:
		return b
	}
	return a
}

// firstOn returns the task of a side that the quota admits first; nil as first. So each put of a full namespace has its
// turn.
func (q *Queue) firstOn(on *side) *task { return q.orRetry(q.firstIn(on.urgent, on.lingering), on) }

// firstIn returns the task of a side's lines that the quota admits first; nil if there is none.
func (q *Queue) firstIn(lines ...line) (first *task) {
	for _, l := range lines {
		t := l.front
		if t != nil && (first == nil || q.admitted(t) < q.admitted(first)) {
			first = t
		}
	}
	return first
}

// orRetry returns the first retry of a side if the quota admits it before t, or else t, which may be nil.
func (q *Queue) orRetry(t *task, on *side) *task {
	for kind := range on.retries {
		if len(on.retries[kind]) == 0 || waiting(kind) == silent && q.silent > q.silentMore { // guard 16.23
			continue
		}
		retry := q.firstOf(&on.retries[kind])
		if t == nil || q.admitted(retry) < q.admitted(t) || q.admitted(retry) == q.admitted(t) && retry.first < t.first {
			t = retry
		}
	}
	return t
}

// firstOf returns the task of a heap of retries that is ready first. The heap is ordered by due time.
// Under a short quota, the first may have to wait for its turn while a later one need not. Then firstOf
// looks at all: such a namespace has few.
func (q *Queue) firstOf(retries *heapOf[*retryState]) *task {
	first := (*retries)[0].task
	if !q.pace.spread {
		return first
	}
	for i := range *retries {
		if t := (*retries)[i].task; q.admitted(t) < q.admitted(first) {
			first = t
		}
	}
	return first
}

// oldestOf bounds the entries of a namespace that are sent oldest first. With more entries, the one
// that has been due longest goes first.
const oldestOf = 1000

// choose returns the task to send now; q.first() must be ready. An entry that a caller waits for goes
// before the others, but only every other time.
func (q *Queue) choose(now Instant) *task {
	t := q.first()
	if t.urgent { // guard 10.20
		// guard 12.7
		if q.hurried = !q.hurried; q.hurried {
			return t
		}
		other := q.sooner(q.orRetry(q.others.lingering.front, &q.others), q.orRetry(q.puts.lingering.front, &q.puts))
		if other != nil && q.ready(other) <= now {
			t = other
		}
	}
	if t.isSilent() || q.tasks.Len() > oldestOf {
		return t
	}
	return q.oldest(t, now)
}

// oldest returns the ready task whose newest write is oldest, because upstream lists entries in the
// order in which it receives them. While others go before the first task, new writes to it do not
// change its place: otherwise a busy key would never be sent.
func (q *Queue) oldest(first *task, now Instant) *task {
	if q.passed != first.first {
		q.passed, q.passedAs = first.first, first.seq
	}
	oldest, seq := first, q.passedAs // guard 12.6
	look := func(t *task) {
		if t.seq < seq && q.turnOf(t) <= now {
			oldest, seq = t, t.seq
		}
	}
	for _, on := range q.sides() {
		for _, l := range []line{on.urgent, on.lingering} {
			for t := l.front; t != nil && q.due(t) <= now; t = t.next {
				look(t)
			}
		}
		for _, kind := range []waiting{backingOff, noRoom} {
			for _, r := range on.retries[kind] {
				if r.at <= now {
					look(r.task)
				}
			}
		}
	}
	return oldest
}

// eachInWindow visits the retries of entries inside a late window.
func (q *Queue) eachInWindow(now Instant, visit func(*retryState)) {
	for _, on := range q.sides() {
		for kind := range on.retries {
			for _, r := range on.retries[kind] {
				if r.windowEnd > now {
					visit(r)
				}
			}
		}
	}
}

// tryNow ends the waits that only time would end, but no late window: an earlier request may still land over the
// write. tryNow looks at every task whose wait it ends.
func (q *Queue) tryNow(now Instant) {
	q.notBefore, q.putsAt = 0, 0 // guard 18.6
	for _, on := range q.sides() {
		for _, kind := range []waiting{backingOff, silent} {
			h := &on.retries[kind]
			for _, r := range *h {
				if r.at = AtOnce; r.windowEnd > now { // guard 18.7
					r.at = r.windowEnd
				}
			}
			heap.Init(h)
		}
	}
}

func (q *Queue) before(other *Queue) bool {
	if q.readyAt == other.readyAt {
		return q.served < other.served
	}
	return q.readyAt < other.readyAt
}

func (q *Queue) placed(index int) { q.index = index }
