package upstream

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/internal/hashtable"
	"github.com/botwired/botwired/journal"
)

// A namespace with little to send sends one entry after the other, so that upstream sees
// an agent's writes in the order in which they were made, and lists them so.
const (
	// inOrderTasks is the most entries that count as little: a namespace with more uses
	// all of the concurrency there is.
	inOrderTasks = 16
	// inOrderFor is how long a request may keep the next one from being sent: some round
	// trips. A task that has failed before holds up no other: its entry may be sick.
	inOrderFor = 250 * time.Millisecond
)

// queue is the tasks of a namespace. A task that is not running stands in one of three
// places: among the urgent ones, which are due; in the lingering line, where a newer
// write sends it to the back, so that the line is in order of writtenAt and its front is
// due first; or among the retries. A flush makes all that linger urgent at the price of
// one task: it joins the two lines, and urgentUpTo says so of each task.
type queue struct {
	hashtable.Node[queue] // in the schedule's table, by namespace

	tasks      hashtable.Table[task, *task] // by key
	pending    int                          // tasks with a write
	linger     instant
	urgent     line
	lingering  line
	retries    heapOf[*retryState]
	urgentUpTo uint64 // tasks whose first is not above it are urgent

	running   int
	inOrder   int     // of those running, the ones that had not failed before
	inOrderAt instant // when the last of them was sent
	notBefore instant // the namespace waits: it is throttled or paused
	blocked   bool    // one request at a time until one goes through
	paused    string  // why the namespace is paused; empty if it is not
	backoff   *backoff.ExponentialBackOff

	readyAt  instant // position in the schedule's heap
	servedAt instant // when it was last served
	served   uint64  // the turn in which it was
	index    int     // in the schedule's heap; -1 while it is not there
}

func (q *queue) id(t *task) journal.ID { return journal.ID{Namespace: q.Key(), Key: t.Key()} }

func (q *queue) isUrgent(t *task) bool { return t.urgent || t.first <= q.urgentUpTo }

// leave takes a task out of its place. It must not be running.
func (q *queue) leave(t *task) {
	switch {
	case t.retrying():
		q.retries.remove(t.retry.index)
	case q.isUrgent(t):
		q.urgent.remove(t)
	default:
		q.lingering.remove(t)
	}
}

// due is when the task is due; it must not be running.
func (q *queue) due(t *task) instant {
	switch {
	case t.retrying():
		return t.retry.at
	case q.isUrgent(t):
		return 0
	}
	return t.writtenAt + q.linger
}

// first is the task that is due first, or with untried the first that stands in a line
// and not among the retries; nil if there is none.
func (q *queue) first(untried bool) *task {
	t := q.urgent.front
	if t == nil {
		t = q.lingering.front
	}
	if untried || q.retries.len == 0 {
		return t
	}
	retry := q.retries.first().task
	if t == nil {
		return retry
	}
	if a, b := q.due(t), q.due(retry); b < a || a == b && retry.first < t.first {
		return retry
	}
	return t
}

// before is by ready time, then by turns.
func (q *queue) before(other *queue) bool {
	if q.readyAt == other.readyAt {
		return q.served < other.served
	}
	return q.readyAt < other.readyAt
}

func (q *queue) placed(index int) { q.index = index }
