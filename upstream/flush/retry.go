package flush

import (
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/journal"
)

// probeMax bounds the wait between two probes while upstream may be down: upstream gets the newest
// writes within 5 s of its return.
const probeMax = 4 * time.Second

// atOnce is the time of a retry that waits only for its namespace. It goes before all lingering tasks.
const atOnce instant = 1

// waiting is what a task among its queue's retries waits for.
type waiting uint8

const (
	backingOff waiting = iota // the end of its backoff
	// silent waits for the same, after a request that hung. A queue tries one silent task at a time:
	// the next request may hang as long.
	silent
	doubting // the end of the late windows of its requests
	noRoom   // room on the disk
	waitings
)

// retryState holds the fields that a task needs only after a failure.
type retryState struct {
	task     *task
	at       instant           // nothing is sent before; 0: no limit
	waiting  waiting           // what it waits for until then
	index    int               // index in its queue's heap for this kind of wait; -1: not there
	attempts int               // failures since the last success
	since    instant           // time of the first of them
	reason   string            // why the last attempt failed
	arrived  []journal.Content // contents upstream may hold: it failed while handling their requests
	hung     bool              // a request hung, and no request has been answered since
	backoff  *backoff.ExponentialBackOff
	doubt    *doubt // not nil while an unanswered request may still be carried out

	refusedSeq uint64  // the write that upstream has refused, and that stays pending
	refusedAt  instant // when upstream first refused it
}

func retryOf(t *task) *retryState {
	if t.retry == nil {
		t.retry = &retryState{task: t, index: -1}
	}
	return t.retry
}

// doubt returns nil if every request was answered.
func (t *task) doubt() *doubt {
	if t.retry == nil {
		return nil
	}
	return t.retry.doubt
}

// mayHaveLanded reports whether upstream may hold a write that has not settled: its request was not
// answered, it is being read back, or upstream failed while handling it.
func (t *task) mayHaveLanded() bool {
	return t.retry != nil && (t.retry.doubt != nil || len(t.retry.arrived) > 0)
}

// mostOwn bounds the contents that count as this host's own. Without it, the sent marks of a busy entry
// would grow through an outage of days.
const mostOwn = 64

// own returns the contents that this host's requests may have left upstream since the entry last
// settled, or may still leave, oldest first.
func (t *task) own() (all []journal.Content) {
	if t.retry == nil {
		return nil
	}
	all = append(t.doubt().contents(), t.retry.arrived...)
	if d := t.doubt(); d != nil && d.confirmed != nil {
		all = append(all, d.confirmed.content)
	}
	return all[max(0, len(all)-mostOwn):]
}

// unconfirm ends the wait for the end of the doubt: something has to be sent before. Until that is confirmed,
// upstream may hold the write that it has confirmed.
func (r *retryState) unconfirm() {
	if d := r.doubt; d != nil && d.confirmed != nil {
		r.mayHold(d.confirmed.content) // guard 17.54
		d.confirmed = nil
	}
}

func (r *retryState) mayHold(c journal.Content) {
	r.arrived = append(slices.DeleteFunc(r.arrived, func(other journal.Content) bool { return other == c }), c)
	r.arrived = r.arrived[max(0, len(r.arrived)-mostOwn):]
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
