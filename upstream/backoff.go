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

const (
	// longestPatience is how long a read of something unknown waits for upstream. SDKs commonly give
	// up after 10 s, and learn more from a 503 before that.
	longestPatience = 5 * time.Second
	// firstPause is about four round trips to botwire.dev. longestPause costs a dead upstream next to
	// nothing.
	firstPause, longestPause = 200 * time.Millisecond, 30 * time.Second
)

// Patience returns how long a read of an unknown entry waits: half of upstream.timeout, 5 s at most.
func Patience(timeout time.Duration) time.Duration { return min(longestPatience, timeout/2) }

// Pauses are the first pause between attempts and the longest one. They are shorter in front of an
// upstream that is expected to answer soon.
func Pauses(timeout time.Duration) (first, longest time.Duration) {
	first = min(firstPause, max(time.Millisecond, timeout/50))
	return first, min(longestPause, max(first, 3*timeout))
}

// NewBackoff returns waits from initial to at most longest, jitter included, for ever.
func NewBackoff(initial, longest time.Duration) *backoff.ExponentialBackOff {
	longest = max(1, time.Duration(float64(longest)/(1+backoffJitter)))
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(initial, longest)),
		backoff.WithMaxInterval(longest),
		backoff.WithMultiplier(backoffMultiplier),
		backoff.WithRandomizationFactor(backoffJitter),
		// guard 13.3
		backoff.WithMaxElapsedTime(0), // its default gives up after 15 minutes
	)
}
