package flush

import (
	"container/heap"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/internal/hashtable"
	"github.com/botwired/botwired/journal"
)

// queue is the tasks of a namespace. A task that is not running stands in one of three
// places: among the urgent ones, which are due; in a lingering line, where a newer write
// sends it to the back, so that the line is in order of writtenAt and its front is due first;
// or among the retries. Under a quota, or in a full namespace, deletes linger in a line of
// their own. A flush makes all that linger urgent at the price of one task: it joins the
// lines, and urgentUpTo says so of each task.
type queue struct {
	hashtable.Node[queue] // in the schedule's table, by namespace

	tasks      hashtable.Table[task, *task] // by key
	pending    int                          // tasks with a write
	linger     instant
	urgent     line
	removing   line // lingers, too
	lingering  line
	retries    [waitings]heapOf[*retryState]
	urgentUpTo uint64 // tasks whose first is not above it are urgent

	running int
	silent  int    // of those running, the ones that were silent
	failing bool   // the last answer, or its lack, blames upstream
	reason  string // why it does

	pace pace // by the namespace's quota

	notBefore instant // the namespace waits: it is throttled or paused
	blocked   bool    // one request at a time until one goes through
	paused    string  // why the namespace is paused; empty if it is not
	throttled string  // why it is throttled; empty if it is not
	full      bool    // it is paused because upstream has no room for more in it
	refusing  bool    // it is paused because upstream refuses one write after another
	backoff   *backoff.ExponentialBackOff

	answeredAt instant // when upstream last gave a verdict

	readyAt  instant // position in the schedule's heap
	servedAt instant // when it was last served
	served   uint64  // the turn in which it was
	hurried  bool    // an entry went before its turn, as a caller waits for it
	passed   uint64  // the first of the task that others went before
	passedAs uint64  // that task's seq when the first of them did
	in       *heapOf[*queue]
	index    int // in that heap; -1 while it is in none
}

func (q *queue) id(t *task) journal.ID { return journal.ID{Namespace: q.Key(), Key: t.Key()} }

func (q *queue) isUrgent(t *task) bool { return t.through || t.urgent || t.first <= q.urgentUpTo }

// leave takes a task that is not running out of its place.
func (q *queue) leave(t *task) {
	switch {
	case t.retrying():
		heap.Remove(&q.retries[t.retry.waiting], t.retry.index)
	case q.isUrgent(t):
		q.urgent.remove(t)
	case t.removes:
		q.removing.remove(t)
	default:
		q.lingering.remove(t)
	}
}

// due returns when a task that is not running is due, regardless of the quota.
func (q *queue) due(t *task) instant {
	switch {
	case t.retrying():
		return t.retry.at
	case q.isUrgent(t):
		return 0
	case t.removes:
		return t.writtenAt + q.linger
	}
	return q.pace.widened(t.writtenAt, q.linger)
}

// ready returns when the task is due and its namespace's quota lets it go.
func (q *queue) ready(t *task) instant { return max(q.due(t), q.turnOf(t)) }

// untried returns the first task that is not among the retries; nil if there is none.
func (q *queue) untried() *task {
	return q.firstIn(q.urgent, q.removing, q.lingering)
}

// firstIn returns the task of some lines that is ready first; nil if there is none.
func (q *queue) firstIn(lines ...line) (first *task) {
	for _, l := range lines {
		t := l.front
		if t != nil && (first == nil || q.ready(t) < q.ready(first)) {
			first = t
		}
	}
	return first
}

// first returns the task that is ready first; nil if none waits, or only silent ones while another silent
// one is tried.
func (q *queue) first() *task { return q.orRetry(q.untried()) }

// orRetry returns the first of the retries if it is ready before t, or else t, which may be nil.
func (q *queue) orRetry(t *task) *task {
	for kind := range q.retries {
		if len(q.retries[kind]) == 0 || waiting(kind) == silent && q.silent > 0 { // guard 16.23
			continue
		}
		retry := q.firstOf(&q.retries[kind])
		if t == nil || q.ready(retry) < q.ready(t) || q.ready(retry) == q.ready(t) && retry.first < t.first {
			t = retry
		}
	}
	return t
}

// firstOf returns the task of some retries that is ready first. They are in the order in which they are
// due. Where a quota is short, the first may wait for its turn, and one behind it need not: all are
// looked at, as such a namespace has few.
func (q *queue) firstOf(retries *heapOf[*retryState]) *task {
	first := (*retries)[0].task
	if !q.pace.spread {
		return first
	}
	for i := range *retries {
		if t := (*retries)[i].task; q.ready(t) < q.ready(first) {
			first = t
		}
	}
	return first
}

// oldestOf bounds the entries of a namespace that are sent oldest first. With more entries, the one
// that has been due longest goes first.
const oldestOf = 1000

// choose returns the task to send now; q.first() must be ready. An entry for which a caller waits goes
// before the others, but only every other time.
func (q *queue) choose(now instant) *task {
	t := q.first()
	if t.urgent { // guard 10.20
		// guard 12.7
		if q.hurried = !q.hurried; q.hurried {
			return t
		}
		if other := q.orRetry(q.firstIn(q.removing, q.lingering)); other != nil && q.ready(other) <= now {
			t = other
		}
	}
	if t.isSilent() || q.tasks.Len() > oldestOf {
		return t
	}
	return q.oldest(t, now)
}

// oldest returns the ready task with the oldest newest write: upstream lists the entries in the order in
// which it gets them. Writes that come to the first task while others go before it do not change its
// place: a busy key would never be sent.
func (q *queue) oldest(first *task, now instant) *task {
	if q.passed != first.first {
		q.passed, q.passedAs = first.first, first.seq
	}
	oldest, seq := first, q.passedAs // guard 12.6
	look := func(t *task) {
		if t.seq < seq && q.turnOf(t) <= now {
			oldest, seq = t, t.seq
		}
	}
	for _, l := range []line{q.urgent, q.removing, q.lingering} {
		for t := l.front; t != nil && q.due(t) <= now; t = t.next {
			look(t)
		}
	}
	for _, kind := range []waiting{backingOff, noRoom} {
		for i := range q.retries[kind] {
			if r := q.retries[kind][i]; r.at <= now {
				look(r.task)
			}
		}
	}
	return oldest
}

// tryNow ends the waits that only time would end. A task in doubt goes on waiting: an
// earlier request may still overtake its write. tryNow looks at every task whose wait it ends.
func (q *queue) tryNow() {
	q.notBefore = 0 // guard 18.6
	for _, kind := range []waiting{backingOff, silent} {
		h := &q.retries[kind]
		for i := range *h {
			(*h)[i].at = atOnce // guard 18.7
		}
		heap.Init(h)
	}
}

func (q *queue) before(other *queue) bool {
	if q.readyAt == other.readyAt {
		return q.served < other.served
	}
	return q.readyAt < other.readyAt
}

func (q *queue) placed(index int) { q.index = index }
