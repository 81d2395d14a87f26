package quota

import (
	"math"
	"time"
)

// The line of a namespace's quota leads from all of it, when its window begins, to nothing
// when the window ends. A namespace above the line, or not far below it, sends as if there
// were no quota. Below that it spreads what is left over the time that is left.
const (
	// ampleAbove is the share of the line above which nothing is spread, and spreadBelow the
	// share below which the rest is spread evenly. In between, one becomes the other. The
	// tenth above ampleAbove is for the bursts of a namespace that has just begun.
	ampleAbove  = 0.90
	spreadBelow = 0.85
	// reservePart is the divisor for the reserve: a namespace keeps 1/reservePart of its quota for
	// deletes and for writes that a caller waits for. As the window passes, it gives the rest of the
	// reserve to all writes little by little.
	reservePart = 20
	// nextWindow is how long a namespace that has used up its quota waits in the next window:
	// a clock that is a little fast would send before it.
	nextWindow = 100 * time.Millisecond
)

// supply is a namespace's remaining quota at one moment.
type supply struct {
	quota     Limit
	left      int           // upstream writes in this window
	reserve   int           // of them, kept for those that should not wait
	timeLeft  time.Duration // of the window; above zero
	linger    time.Duration // flush.linger
	sinceLast time.Duration // since the last write that was not of the reserve
}

// Terms say when a namespace's writes may be sent: how long to wait from now on for each
// kind of them. The zero value lets all go at once.
type Terms struct {
	Limited  bool          // there is a quota
	Spread   bool          // its writes are spread
	Linger   time.Duration // how long a write waits for a newer one to its entry
	Gap      time.Duration // between two ordinary writes
	Ordinary time.Duration
	Prompt   time.Duration // deletes, and writes for which a caller waits
	Demanded time.Duration // by a flush or a drain
	Ends     time.Duration // the window
	MaxAge   time.Duration // the quota's
}

func reserveOf(writes int) int { return writes / reservePart }

// termsOf returns the terms of a supply. It never lets the quota run dry for ordinary writes: the less
// is left, the longer is the gap between two of them. Entries that are written all the time then take
// turns, and each of their requests carries all that was written since the last one.
func termsOf(s supply) Terms {
	t := Terms{Limited: true, Linger: s.linger, Ends: s.timeLeft, MaxAge: s.quota.MaxAge}
	if s.left < 1 {
		t.Spread, t.Linger = true, max(s.linger, s.quota.MaxAge)
		wait := s.timeLeft + nextWindow
		t.Gap, t.Ordinary, t.Prompt, t.Demanded = s.timeLeft, wait, wait, wait // guard 18.11
		return t
	}
	timeShare := float64(s.timeLeft) / float64(s.quota.Period)
	reserved := reserveOf(s.quota.Writes)
	spendable := float64(s.left) - min(float64(s.reserve), float64(reserved)*timeShare)
	if spendable < 1 {
		// The reserve gives way by one write when so much of the window is left.
		until := time.Duration(float64(s.quota.Period) * float64(s.left-1) / float64(reserved))
		t.Gap, t.Ordinary = s.timeLeft, min(s.timeLeft, max(0, s.timeLeft-until))
		t.Spread, t.Linger = true, max(s.linger, s.quota.MaxAge)
	} else {
		line := float64(s.quota.Writes-reserved) * timeShare
		spreads := min(1, max(0, (ampleAbove-spendable/line)/(ampleAbove-spreadBelow)))
		if spreads == 0 {
			return t
		}
		even := float64(s.timeLeft) / float64(s.left) // by the end, the reserve is given to all
		t.Spread, t.Gap = true, time.Duration(spreads*even)
		t.Ordinary = min(s.timeLeft, max(0, t.Gap-s.sinceLast)) // guard 18.9
		t.Linger = widened(s.linger, min(time.Duration(even), s.quota.MaxAge), spreads)
	}
	if t.Prompt = t.Ordinary; s.reserve > 0 { // guard 18.12
		t.Prompt = 0
	}
	return t
}

// widened returns a time from from to to: the larger the share, the nearer to to. It multiplies instead
// of adding, because the two may be far apart.
func widened(from, to time.Duration, share float64) time.Duration {
	if to <= from {
		return from
	}
	least := float64(max(from, time.Millisecond))
	return max(from, time.Duration(least*math.Pow(max(1, float64(to)/least), share)))
}
