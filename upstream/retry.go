package upstream

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	// backoffJitter spreads each wait by this share to both sides.
	backoffJitter = 0.5
	// backoffMultiplier is the growth from one wait to the next.
	backoffMultiplier = 2
)

// atOnce is the time of a retry that waits only for its namespace: before all that
// lingers there.
const atOnce instant = 1

// retryState holds the fields that a task needs only once something went wrong.
type retryState struct {
	task     *task
	at       instant // nothing is sent before: a backoff, a late window, a read-back; 0 if there is no such time
	index    int     // in its queue's heap of retries; -1 while it is not there
	attempts int     // failures since the last success
	reason   string  // why the last attempt failed
	backoff  *backoff.ExponentialBackOff
	doubt    *doubt // not nil while an unanswered request may still be carried out
}

// retryOf returns the task's retry state, made if need be.
func retryOf(t *task) *retryState {
	if t.retry == nil {
		t.retry = &retryState{task: t, index: -1}
	}
	return t.retry
}

// doubt is nil when every request was answered.
func (t *task) doubt() *doubt {
	if t.retry == nil {
		return nil
	}
	return t.retry.doubt
}

// mayHaveLanded reports whether upstream may hold a write to the entry that has not
// settled: one that was not answered, one that is being read back, or one that upstream
// failed over, and nobody knows how far that got.
func (t *task) mayHaveLanded() bool {
	return t.retry != nil && (t.retry.doubt != nil || t.retry.attempts > 0)
}

// retrying reports whether the task stands among its queue's retries.
func (t *task) retrying() bool { return t.retry != nil && t.retry.index >= 0 }

// before is by time, then by age.
func (r *retryState) before(other *retryState) bool {
	if r.at == other.at {
		return r.task.first < other.task.first
	}
	return r.at < other.at
}

func (r *retryState) placed(index int) { r.index = index }

// newBackoff returns waits from initial to at most longest, jitter included, for ever.
func newBackoff(initial, longest time.Duration) *backoff.ExponentialBackOff {
	longest = max(1, time.Duration(float64(longest)/(1+backoffJitter)))
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(initial, longest)),
		backoff.WithMaxInterval(longest),
		backoff.WithMultiplier(backoffMultiplier),
		backoff.WithRandomizationFactor(backoffJitter),
		backoff.WithMaxElapsedTime(0), // its default gives up after 15 minutes
	)
}
