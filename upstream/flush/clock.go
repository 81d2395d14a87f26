package flush

import "time"

// instant is a time on the flusher's own monotonic clock, always above zero. It takes a third of a
// time.Time's memory.
type instant time.Duration

// clock returns instants. Jumps of the wall clock do not affect it (contract 19).
type clock struct {
	epoch time.Time // the origin of its instants
}

func (c clock) now() instant { return c.instant(time.Now()) }

// instant converts t to this clock; the zero time becomes 0.
func (c clock) instant(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return max(1, instant(t.Sub(c.epoch))+1)
}

// wall converts an instant to the wall clock; 0 becomes the zero time.
func (c clock) wall(at instant) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return c.epoch.Add(time.Duration(at) - 1).Round(0)
}
