package pending

import "time"

// oldest tracks when a namespace's oldest entry began to wait. The time is exact until that entry
// leaves; then the namespace must be searched.
type oldest struct {
	since float64  // Unix seconds; not later than the oldest entry's; 0 if there is none
	stale bool     // the oldest entry has left
	found *float64 // the lowest since of the search in progress; nil if there is none
}

func (o *oldest) came(since float64) {
	if o.since == 0 || since < o.since {
		o.since, o.stale = since, false
	}
	if o.found != nil {
		*o.found = min(*o.found, since)
	}
}

func (o *oldest) left(since float64) {
	o.stale = o.stale || since <= o.since || o.found != nil && since <= *o.found
}

// Pace limits expensive searches to a twentieth of the time. The zero Pace is ready.
type Pace struct{ notBefore time.Time }

// Ready reports whether a search may begin.
func (p *Pace) Ready(now time.Time) bool { return !now.Before(p.notBefore) }

// Took records the duration of a search that has just ended.
func (p *Pace) Took(d time.Duration, now time.Time) { p.notBefore = now.Add(20 * d) }
