package check

import (
	"cmp"
	"slices"
	"time"
)

// step is one thing that a host's callers have learnt of an entry: by an acknowledged write, or by a read.
type step struct {
	began, ended time.Duration
	at           int64 // the time of the write; 0 of an absence
	absent, read bool
}

// reads holds the answers of each host to the order of time: a read that began after another answer shows
// what that one showed, or something later.
func (c *checker) reads() {
	type line struct {
		host int
		Entry
	}
	lines := make(map[line][]step)
	for _, w := range c.writes {
		if w.Seq != 0 && w.at != 0 {
			at := line{w.Host, w.Entry}
			lines[at] = append(lines[at], step{began: w.Began, ended: w.Ended, at: w.at})
		}
	}
	for i := range c.Reads {
		r := &c.Reads[i]
		if r.Found && !c.readable(r) {
			continue
		}
		at := line{r.Host, r.Entry}
		lines[at] = append(lines[at], step{r.Began, r.Ended, r.UpdatedAt, !r.Found, true})
	}
	for at, steps := range lines {
		c.forward(at.host, at.Entry, steps)
	}
}

// readable reports whether somebody has written what a read shows, at that time and before the read's end.
func (c *checker) readable(r *Read) bool {
	w := c.byValue[r.Value]
	switch {
	case w == nil || w.Entry != r.Entry:
		c.fault(RuleKnown, r.Entry, "host %d has answered %.20q, which nobody has written there", r.Host, r.Value)
	case w.Began > r.Ended:
		c.fault(RuleKnown, r.Entry, "host %d has answered %.20q before somebody wrote it", r.Host, r.Value)
	case w.at != 0 && w.at != r.UpdatedAt:
		c.fault(RuleOneTime, r.Entry, "host %d has answered %d for %s", r.Host, r.UpdatedAt, w)
	default:
		return true
	}
	return false
}

// forward goes through the steps by their beginnings. floor is the latest time that an answer has shown that
// had ended by then.
func (c *checker) forward(host int, e Entry, steps []step) {
	byEnd := slices.Clone(steps)
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.began, b.began) })
	slices.SortFunc(byEnd, func(a, b step) int { return cmp.Compare(a.ended, b.ended) })
	deletes := c.deletes(e)
	var floor int64
	ended := 0
	for _, s := range steps {
		for ; ended < len(byEnd) && byEnd[ended].ended < s.began; ended++ {
			floor = max(floor, shown(byEnd[ended], floor, deletes))
		}
		switch {
		case !s.read:
		case s.absent && floor != 0 && shown(s, floor, deletes) == 0:
			c.fault(RuleBackward, e, "host %d has answered that there is none, after %d, and nobody had deleted it", host, floor)
		case !s.absent && s.at < floor:
			c.fault(RuleBackward, e, "host %d has answered %d, after %d", host, s.at, floor)
		}
	}
}

// shown is the least time that an answer may have shown which came after one that showed floor. An absence
// is that of a delete, whose time nobody knows if the daemon has not answered it. It is 0 if there is none.
func shown(s step, floor int64, deletes []*known) int64 {
	if !s.absent || floor == 0 { // there need not have been anything before
		return s.at
	}
	for _, d := range deletes {
		if d.Began < s.ended && (d.at == 0 || d.at >= floor) {
			return max(d.at, floor)
		}
	}
	return 0
}

// deletes are those of an entry, the earliest first.
func (c *checker) deletes(e Entry) (list []*known) {
	for _, w := range c.of[e] {
		if w.Delete {
			list = append(list, w)
		}
	}
	slices.SortFunc(list, func(a, b *known) int { return cmp.Compare(a.at, b.at) })
	return list
}
