package quota

import (
	"math"
	"time"
)

// The line of a namespace's quota falls from all of it, when its window begins, to nothing when the
// window ends. A namespace above the line, or not far below it, sends as if there were no quota.
// Further below, it spreads the rest over the remaining time.
const (
	// ampleAbove is the fraction of the line above which nothing is spread, and spreadBelow the
	// fraction below which the rest is spread evenly. In between, one changes into the other. The tenth
	// above ampleAbove leaves room for the bursts of a namespace whose window has just begun.
	ampleAbove  = 0.90
	spreadBelow = 0.85
	// reservePart determines the reserve: a namespace keeps 1/reservePart of its quota for deletes and
	// for writes that a caller waits for. As the window passes, it gradually gives the rest of the
	// reserve to all writes.
	reservePart = 20
	// nextWindow is how long a namespace that has used up its quota waits in the next window: a host
	// whose clock is a little fast would otherwise send before that window.
	nextWindow = 100 * time.Millisecond
)

// supply is a namespace's remaining quota at one moment.
type supply struct {
	quota     Limit
	left      int           // upstream writes left in this window
	reserve   int           // how many of left are reserved for writes that should not wait
	timeLeft  time.Duration // left of the window; above zero
	linger    time.Duration // flush.linger
	sinceLast time.Duration // since the last write not charged to the reserve
}

// Terms say how long each kind of a namespace's writes has to wait from now on. The zero value sends
// all at once.
type Terms struct {
	Limited  bool          // there is a quota
	Spread   bool          // the writes are spread
	Linger   time.Duration // how long a write waits for a newer one to its entry
	Gap      time.Duration // between two ordinary writes
	Ordinary time.Duration
	Prompt   time.Duration // deletes, and writes that a caller waits for
	Demanded time.Duration // sent by a flush or a drain
	Ends     time.Duration // until the window ends
	MaxAge   time.Duration // the quota's
}

func reserveOf(writes int) int { return writes / reservePart }

// termsOf returns the terms of a supply. Ordinary writes never use up the quota: the less is left, the
// longer is the gap between two of them. Busy entries then take turns, and each request carries all
// that was written since the entry's last request.
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
		// The reserve gives up one write when this much of the window is left.
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

// widened returns a duration between from and to: the larger the share, the nearer to to. It
// interpolates by factors, because the two may be far apart.
func widened(from, to time.Duration, share float64) time.Duration {
	if to <= from {
		return from
	}
	least := float64(max(from, time.Millisecond))
	return max(from, time.Duration(least*math.Pow(max(1, float64(to)/least), share)))
}
