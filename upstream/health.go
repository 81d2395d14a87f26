package upstream

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/botwired/botwired/journal"
)

const (
	// backoffJitter spreads each wait by this share to both sides.
	backoffJitter = 0.5
	// backoffMultiplier is the growth from one wait to the next.
	backoffMultiplier = 2
)

// newBackoff returns waits from initial to at most max, jitter included, for ever.
func newBackoff(initial, longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(initial, longest)),
		backoff.WithMaxInterval(max(1, time.Duration(float64(longest)/(1+backoffJitter)))),
		backoff.WithMultiplier(backoffMultiplier),
		backoff.WithRandomizationFactor(backoffJitter),
		backoff.WithMaxElapsedTime(0), // its default gives up after 15 minutes
	)
}

// health is what is believed of upstream on the strength of one kind of request.
// A single failing entry makes it suspect; a second one, or a service that cannot be
// reached, makes it down (contract 16).
type health struct {
	mu       sync.Mutex
	backoff  *backoff.ExponentialBackOff
	failing  bool // the last outcome was a failure
	down     bool
	suspect  journal.ID // the one entry that has failed since the last success
	since    time.Time  // when the outage began
	probeAt  time.Time  // when a request may be tried while down
	probing  bool       // it is under way
	lastText string     // the last failure, for people
}

func newHealth(initial, longest time.Duration) *health {
	return &health{backoff: newBackoff(initial, longest)}
}

// success records a request that upstream answered sensibly, and reports whether it
// ended an outage.
func (h *health) success() (recovered bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	recovered = h.failing
	h.failing, h.down, h.probing = false, false, false
	h.suspect, h.lastText = journal.ID{}, ""
	h.backoff.Reset()
	return recovered
}

// failure records a request about id that brought no verdict. unreachable says that
// it did not even arrive.
func (h *health) failure(id journal.ID, unreachable bool, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if !h.failing {
		h.failing, h.since, h.suspect = true, now, id
	}
	h.lastText = text
	wasDown := h.down
	h.down = h.down || unreachable || h.suspect != id
	if h.down && (!wasDown || h.probing) {
		// Requests that were under way when it went down say nothing new.
		h.probeAt = now.Add(h.backoff.NextBackOff())
	}
	h.probing = false
}

// admit reports whether a request may be made now. While upstream is down it lets
// one probe through at a time, and otherwise says when to ask again.
func (h *health) admit(now time.Time) (ok bool, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.down:
		return true, time.Time{}
	case h.probing:
		return false, time.Time{}
	case now.Before(h.probeAt):
		return false, h.probeAt
	}
	h.probing = true
	return true, time.Time{}
}

// release takes back a probe that was admitted and not made, or that told nothing of
// upstream.
func (h *health) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probing = false
}

// nudge lets the next probe go at once: there is reason to think that upstream is
// back.
func (h *health) nudge() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probeAt = time.Time{}
}

// view is a health as of now.
type view struct {
	failing bool
	down    bool
	since   time.Time // when the outage began, if failing
	retryIn time.Duration
	text    string
}

func (h *health) view() view {
	h.mu.Lock()
	defer h.mu.Unlock()
	return view{h.failing, h.down, h.since, max(0, time.Until(h.probeAt)), h.lastText}
}
