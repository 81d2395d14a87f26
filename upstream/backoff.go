package upstream

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

const (
	// backoffJitter varies each wait by up to this fraction of the wait, in both directions.
	backoffJitter = 0.5
	// backoffMultiplier is the factor between one wait and the next.
	backoffMultiplier = 2
)

const (
	// longestPatience bounds how long a read of an unknown entry waits for upstream. SDKs commonly give
	// up after 10 s; a 503 before that tells them more.
	longestPatience = 5 * time.Second
	// firstPause is about four round trips to botwire.dev. At longestPause, attempts cost a dead
	// upstream next to nothing. Both are upper bounds: see [Pauses].
	firstPause, longestPause = 200 * time.Millisecond, 30 * time.Second
)

// Patience returns how long a read of an unknown entry waits: half of upstream.timeout, 5 s at most.
func Patience(timeout time.Duration) time.Duration { return min(longestPatience, timeout/2) }

// Pauses returns the first and the longest pause between attempts. A shorter upstream.timeout makes
// both shorter.
func Pauses(timeout time.Duration) (first, longest time.Duration) {
	first = min(firstPause, max(time.Millisecond, timeout/50))
	return first, min(longestPause, max(first, 3*timeout))
}

// NewBackoff returns endless waits from initial to at most longest, including jitter.
func NewBackoff(initial, longest time.Duration) *backoff.ExponentialBackOff {
	longest = max(1, time.Duration(float64(longest)/(1+backoffJitter)))
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(initial, longest)),
		backoff.WithMaxInterval(longest),
		backoff.WithMultiplier(backoffMultiplier),
		backoff.WithRandomizationFactor(backoffJitter),
		// guard 13.3
		backoff.WithMaxElapsedTime(0), // the default gives up after 15 minutes
	)
}
