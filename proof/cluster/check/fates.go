package check

import "slices"

// fates follows each acknowledged write to what has become of it.
func (c *checker) fates() {
	for _, w := range c.writes {
		if w.Seq == 0 {
			continue
		}
		if w.receipt.State == "" {
			c.fault(RuleReceipt, w.Entry, "%s", w)
			continue
		}
		if text, rule := c.fate(w); rule != "" {
			c.fault(rule, w.Entry, "%s is %s: %s", w, w.receipt.State, text)
		}
	}
}

// fate says what is wrong with the fate of a write, and which rule that breaks.
func (c *checker) fate(w *known) (text, rule string) {
	switch w.receipt.State {
	case "settled":
		return c.settled(w)
	case "superseded":
		return c.superseded(w)
	case "dead":
		return "no write of a run is refused", RuleRefused
	}
	return "the daemon still has to carry it to the bucket", RulePending
}

// settled is a write that the bucket has confirmed: it is there, or later ones are, so many that the bucket
// does not keep it.
func (c *checker) settled(w *known) (text, rule string) {
	list := c.Bucket[w.Entry]
	switch {
	case w.place != 0:
		return "", ""
	case w.Delete && slices.ContainsFunc(list, func(v Version) bool { return v.Deleted && v.WrittenAt >= w.at }):
		return "", "" // another host has deleted later: the daemon has found what it wanted
	case len(list) == 0:
		return "the bucket has nothing of the entry", RuleLost
	case len(list) < c.Kept:
		return "the bucket has all versions of the entry, and not this one", RuleLost
	case list[0].WrittenAt <= w.at:
		return "the bucket has earlier and later versions, and not this one", RuleLost
	}
	return "", ""
}

// superseded is a write in whose place another one is: a later one of the same host, or one of another host,
// and then the loser can be listed.
func (c *checker) superseded(w *known) (text, rule string) {
	if by := w.receipt.By; by != 0 {
		next := c.bySeq[w.Host][by]
		if by <= w.Seq || next != nil && next.Entry != w.Entry {
			return "in its place is another entry's or an earlier write", RuleLost
		}
		if next == nil && !c.known(w, by) {
			return "nobody has made the write in its place", RuleLost
		}
		return "", ""
	}
	for _, l := range c.Lost[w.Host] {
		if l.Own && l.Seq == w.Seq && l.Entry == w.Entry {
			return c.beaten(w)
		}
	}
	return "no history has it as lost", RuleSilent
}

// known reports whether a write without an answer may be the one with that number.
func (c *checker) known(w *known, by uint64) bool {
	for _, other := range c.of[w.Entry] {
		if other.Host == w.Host && other.Seq == 0 {
			return true
		}
	}
	_, ok := c.Receipts[w.Host][by]
	return ok
}

// beaten is right if another host has written later.
func (c *checker) beaten(w *known) (text, rule string) {
	for _, other := range c.of[w.Entry] {
		if other.Host != w.Host && (other.at >= w.at || other.Seq == 0) {
			return "", ""
		}
	}
	return "nobody has written later", RuleLost
}

// finals compares what all hosts and the bucket hold in the end with the latest write.
func (c *checker) finals() {
	for e := range c.of {
		var final Version
		if list := c.Bucket[e]; len(list) > 0 {
			final = list[len(list)-1]
		}
		last := c.latest(e)
		if last != nil && final.WrittenAt != last.at {
			c.fault(RuleFinal, e, "the bucket has %.20q, written at %d; the latest is %s", final.Value, final.WrittenAt, last)
		}
		c.agree(e, &final)
	}
	for host, final := range c.Final {
		for e := range final {
			if c.of[e] == nil {
				c.fault(RuleKnown, e, "host %d has an entry that nobody has written", host)
			}
		}
	}
}

func (c *checker) agree(e Entry, final *Version) {
	want, present := State{final.Value, final.WrittenAt}, final.Revision != 0 && !final.Deleted
	for host := range c.Final {
		if got, ok := c.Final[host][e]; ok != present || ok && got != want {
			c.fault(RuleAgree, e, "host %d answers %v %.40v, and the bucket has %v %.40v", host, ok, got, present, want)
		}
		if c.Listed == nil {
			continue
		}
		if got, ok := c.Listed[host][e]; ok != present || ok && got.UpdatedAt != want.UpdatedAt {
			c.fault(RuleAgree, e, "host %d lists %v %d, and the bucket has %v %d", host, ok, got.UpdatedAt, present, want.UpdatedAt)
		}
	}
}

// parted demands that each confirmed value is kept as lost that another write has replaced which cannot have been
// based on it: their hosts were on different sides of a cut. A tombstone needs none: a host that knew of no
// value has overwritten none.
func (c *checker) parted() {
	if len(c.Cuts) == 0 {
		return
	}
	type lost struct {
		host int
		Entry
		at int64
	}
	kept := make(map[lost]bool)
	for host, list := range c.Lost {
		for _, l := range list {
			kept[lost{host, l.Entry, l.WrittenAt}] = true
		}
	}
	for e, list := range c.Bucket {
		for i := 1; i < len(list); i++ {
			old, now := list[i-1], list[i]
			a, known := c.names[old.Host]
			b, both := c.names[now.Host]
			if !known || !both || a == b || old.Deleted || !c.anyParted(a, b, old.WrittenAt, now.WrittenAt) {
				continue
			}
			if !kept[lost{b, e, old.WrittenAt}] && !kept[lost{a, e, old.WrittenAt}] {
				c.fault(RuleSilent, e, "host %d has replaced %s, of host %d, by %s, without knowing it, and nobody keeps it as lost", b, &old, a, &now)
			}
		}
	}
}

func (c *checker) anyParted(a, b int, at, then int64) bool {
	for i := range c.Cuts {
		if c.Cuts[i].parted(a, b, at, then) {
			return true
		}
	}
	return false
}
