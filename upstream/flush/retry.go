package flush

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// probeMax bounds the wait between two probes while upstream may be down: upstream gets the newest
// writes within 5 s of its return.
const probeMax = 4 * time.Second

// atOnce is the time of a retry that waits only for its namespace. It goes before all lingering tasks.
const atOnce instant = 1

// never is the time of a retry that the process does not make any more.
const never instant = math.MaxInt64

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
	at       instant // nothing is sent before; 0: no limit; not before openUntil, while that is to come
	waiting  waiting // what it waits for until then
	index    int     // index in its queue's heap for this kind of wait; -1: not there
	attempts int     // failures since the last success
	since    instant // time of the first of them
	reason   string  // why the last attempt failed
	hung     bool    // a request hung, and no request has been answered since
	backoff  *backoff.ExponentialBackOff
	// openUntil is the end of the late window of the last request that was not answered.
	openUntil instant

	refusedSeq uint64  // the write that upstream has refused, and that stays pending
	refusedAt  instant // when upstream first refused it
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
