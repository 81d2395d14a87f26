package schedule

import (
	"container/heap"
	"testing"
)

// A failed delete does not wait for the turn of a failed write that is due before it.
func TestAFailedDeleteWaitsForNoTurn(t *testing.T) {
	q := &Queue{index: -1, pace: pace{limited: true, spread: true, ordinaryAt: 1000}}
	write, remove := &task{first: 1, seq: 1}, &task{first: 2, seq: 2, deletes: true}
	for i, failed := range []*task{write, remove} {
		r := retryOf(failed)
		r.at = Instant(10 * (i + 1))
		heap.Push(&q.sideOf(failed).retries[backingOff], r)
	}
	if q.first() != remove || q.ready(remove) != 20 {
		t.Errorf("the first is ready at %d, the delete at %d", q.ready(q.first()), q.ready(remove))
	}
}
