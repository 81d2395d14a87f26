package upstream

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/limit"
)

// retryStates spaces out the reads of each entry and listing that upstream fails to answer, however many callers ask
// for it. Its methods may be called concurrently.
type retryStates struct {
	initial, longest time.Duration // bounds of the wait

	mu   sync.Mutex // guards byID
	byID map[journal.ID]*retryState
}

// retryState is the wait of one entry or listing.
type retryState struct {
	until   time.Time
	failed  *Error // the last failure
	backoff *backoff.ExponentialBackOff
}

// refuses returns why a read of id may not be made now, with the remaining wait; nil if it may be made.
func (rs *retryStates) refuses(id journal.ID) *Error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s := rs.byID[id]
	if s == nil {
		return nil
	}
	wait := time.Until(s.until)
	if wait <= 0 {
		return nil
	}
	again := *s.failed
	again.RetryAfter, again.unasked = wait, true
	return &again
}

// ended records how a read of id ended. Only an answer of upstream's own ends its waits.
func (rs *retryStates) ended(id journal.ID, failed *Error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if failed.Says() {
		delete(rs.byID, id)
		return
	}
	s := rs.byID[id]
	if s == nil {
		s = &retryState{backoff: NewBackoff(rs.initial, rs.longest)}
		limit.Remember(rs.byID, id, s)
	}
	s.failed, s.until = failed, time.Now().Add(s.backoff.NextBackOff())
}
