package pending

import (
	"math"
	"time"
)

// oldest tracks since when a namespace's oldest entry has been waiting. It is exact while that
// entry stays; once the entry has left, the namespace must be searched.
type oldest struct {
	since  float64 // Unix seconds; not later than the oldest entry's; 0 if there is none
	stale  bool    // the entry that waited since then has left
	search *Search // under way, nil if there is none
}

func (o *oldest) came(since float64) {
	if o.since == 0 || since < o.since {
		o.since, o.stale = since, false
	}
	if o.search != nil {
		o.search.since = min(o.search.since, since)
	}
}

func (o *oldest) left(since float64) {
	o.stale = o.stale || since <= o.since || o.search != nil && since <= o.search.since
}

// Oldest returns since when the namespace's oldest entry has been waiting, in Unix seconds. If
// exact is false, that entry has left: the next oldest has waited no longer, and a [Search] finds
// it.
func (s *Space) Oldest() (since float64, exact bool) { return s.oldest.since, !s.oldest.stale }

// Search finds a namespace's oldest entry in steps, between which the index may change. A
// namespace has one search at a time.
type Search struct {
	space  *Space
	cursor int
	since  float64
}

// NewSearch begins a search, in place of any that is under way.
func (s *Space) NewSearch() *Search {
	q := &Search{space: s, since: math.Inf(1)}
	s.oldest.search, s.oldest.stale = q, false
	return q
}

// Step walks over about n entries, and reports whether the search is over. Readers of
// the index may work beside it, but for [Space.Oldest].
func (q *Search) Step(n int) (done bool) {
	o := &q.space.oldest
	if o.search != q {
		return true // another one has begun
	}
	q.cursor, done = q.space.Walk(q.cursor, n, func(e *Entry) { // guard 6.9
		v, _ := e.Visible()
		q.since = min(q.since, v.Since)
	})
	if !done {
		return false
	}
	o.search, o.since = nil, q.since
	if math.IsInf(o.since, 1) {
		o.since = 0 // the next write that becomes visible is the oldest
	}
	return true
}

// Pace says when an expensive search may be made again, so that searches take at most a
// twentieth of the time. The zero Pace is ready.
type Pace struct{ notBefore time.Time }

// Ready reports whether a search may begin.
func (p *Pace) Ready(now time.Time) bool { return !now.Before(p.notBefore) }

// Took notes how long a search took that is over now.
func (p *Pace) Took(d time.Duration, now time.Time) { p.notBefore = now.Add(20 * d) }
