package flush

import (
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/journal"
)

// probeMax bounds the wait between two probes while upstream may be down, so that upstream holds
// the newest writes within 5 s of its return.
const probeMax = 4 * time.Second

// atOnce is the time of a retry that waits only for its namespace. It goes before all that lingers there.
const atOnce instant = 1

// waiting names the reason for which a task is among its queue's retries.
type waiting uint8

const (
	backingOff waiting = iota // the end of its backoff
	// silent is the same after a request that hung. A queue tries one silent task at a time: the next
	// request may hang as long.
	silent
	doubting // the end of the late windows of its requests
	noRoom   // room on the disk
	waitings
)

// retryState has the fields of a task that something went wrong with.
type retryState struct {
	task     *task
	at       instant           // nothing is sent before; 0 if there is no such time
	waiting  waiting           // for what, until then
	index    int               // in its queue's heap of those that wait for the same; -1 while it is not there
	attempts int               // failures since the last success
	since    instant           // the first of them
	reason   string            // why the last attempt failed
	arrived  []journal.Content // that upstream may hold: it failed over their requests
	hung     bool              // a request had no answer for long, and no request has had one since
	backoff  *backoff.ExponentialBackOff
	doubt    *doubt // not nil while an unanswered request may still be carried out

	refusedSeq uint64  // the write that upstream has refused, and that waits all the same
	refusedAt  instant // when upstream first did
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

// mayHaveLanded reports whether upstream may hold a write that has not settled: it was not answered, is
// being read back, or upstream failed over it.
func (t *task) mayHaveLanded() bool {
	return t.retry != nil && (t.retry.doubt != nil || len(t.retry.arrived) > 0)
}

// mostOwn bounds the states that count as this host's own. Without it, the sent marks of a busy entry
// would grow through an outage of days.
const mostOwn = 64

// own returns the states that this host's requests may have left upstream since the entry last settled,
// or may yet leave, the latest last.
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
