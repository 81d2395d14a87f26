package flush

import "time"

// instant is a time on the flusher's own monotonic clock, always above zero: a third of a time.Time.
type instant time.Duration

// clock tells instants. No jump of the wall clock moves it (contract 19).
type clock struct {
	epoch time.Time // where instants count from
}

func (c clock) now() instant { return c.instant(time.Now()) }

// instant returns t on this clock; zero stays 0.
func (c clock) instant(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return max(1, instant(t.Sub(c.epoch))+1)
}

// wall returns an instant on the wall clock; 0 stays zero.
func (c clock) wall(at instant) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return c.epoch.Add(time.Duration(at) - 1).Round(0)
}
