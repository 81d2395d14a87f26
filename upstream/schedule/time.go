package schedule

import "math"

// Instant is a time on the caller's own monotonic clock, in nanoseconds, always above zero. It takes a third of a
// time.Time's memory. Zero stands for no time.
type Instant int64

// AtOnce is the time of a retry that waits only for its namespace. It goes before all lingering tasks.
const AtOnce Instant = 1

// never comes after all times.
const never Instant = math.MaxInt64

// sooner returns the earlier of two times; 0 is none.
func sooner(a, b Instant) Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
