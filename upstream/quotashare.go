package upstream

import "time"

// Others may spend of a namespace's quota, too: another host, or a program without botwired. A
// 429 that shuts the rest of a window shows how much of the quota the namespace has got in it.
// The next window begins with that share, so that its writes last to the end. The share grows
// from window to window, until there is a 429 again, or it is the whole quota.
const (
	// leastShare is the least that a window begins with, as a part of the quota, 1 in so many:
	// a namespace that came late to a window would otherwise get nothing of the next ones.
	leastShare = 4
	// shareGrowth is by how much of itself a share grows, 1 in so many.
	shareGrowth = 8
)

// share is what a namespace has got of a quota that others use. The zero value is all of it.
type share struct {
	writes int
	shown  bool // in the present window
}

// show takes in that a window is over for the namespace after so many writes.
func (s *share) show(used, quota int) {
	s.writes, s.shown = min(quota, max(used, quota/leastShare, 1)), true
}

// pass takes in that some windows have passed, in the first of which upstream has taken so many
// writes: perhaps more than it had shown, as a person has ended the wait.
func (s *share) pass(windows int64, used, quota int) {
	if s.shown {
		s.shown, s.writes = false, max(s.writes, used)
		windows--
	}
	for ; windows > 0 && s.writes > 0 && s.writes < quota; windows-- {
		s.writes += max(1, s.writes/shareGrowth)
	}
	if s.writes >= quota {
		s.writes = 0
	}
}

// of is the share of a quota.
func (s *share) of(q Quota) Quota {
	if s.writes > 0 && !s.shown {
		q.Writes = min(q.Writes, s.writes)
	}
	return q
}

// closes reports whether a 429 shuts all that is left of a window. Upstream says so in seconds,
// and by its own clock.
func closes(until, ends time.Time, period time.Duration) bool {
	return !until.Before(ends.Add(-period / 100))
}
