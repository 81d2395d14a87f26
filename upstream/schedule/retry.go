package schedule

import "github.com/cenkalti/backoff/v4"

// waiting is what a task among its queue's retries waits for.
type waiting uint8

const (
	backingOff waiting = iota // the end of its backoff
	// silent waits for the same, after a request that hung. A queue tries one silent task at a time, and more as they
	// are answered: the next request may hang as long.
	silent
	noRoom // room on the disk
	waitings
)

// retryState holds the fields that a task needs only after a failure.
type retryState struct {
	task     *task
	at       Instant // nothing is sent before; 0: no limit; not before windowEnd, while that is to come
	waiting  waiting // what it waits for until then
	index    int     // index in its queue's heap for this kind of wait; -1: not there
	attempts int     // failures since the last success
	since    Instant // time of the first of them
	reason   string  // why the last attempt failed
	hung     bool    // a request hung, and no request has been answered since
	backoff  *backoff.ExponentialBackOff
	// isLeft says that this process does not send the entry any more: the next start does.
	isLeft bool
	// windowEnd is when the last request that was not answered can land no more.
	windowEnd Instant

	refusedSeq uint64  // the write that upstream has refused, and that stays pending
	refusedAt  Instant // when upstream first refused it
}

func retryOf(t *task) *retryState {
	if t.retry == nil {
		t.retry = &retryState{task: t, index: -1}
	}
	return t.retry
}

// retrying reports whether the task is among its queue's retries.
func (t *task) retrying() bool { return t.retry != nil && t.retry.index >= 0 }

// isSilent reports whether the task waits after a request that hung.
func (t *task) isSilent() bool { return t.retrying() && t.retry.waiting == silent }

func (r *retryState) before(other *retryState) bool {
	if r.at == other.at {
		return r.task.first < other.task.first
	}
	return r.at < other.at
}

func (r *retryState) placed(index int) { r.index = index }
