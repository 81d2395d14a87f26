package check

import (
	"cmp"
	"fmt"
	"slices"
)

// Fault is something that must not be.
type Fault struct {
	Rule string // a word or two
	Entry
	Text string
}

func (f Fault) String() string {
	return fmt.Sprintf("%s: %s/%s: %s", f.Rule, f.Namespace, f.Key, f.Text)
}

// The rules that a fault may break.
const (
	RuleKnown    = "came from nowhere"
	RuleOneTime  = "two times of one write"
	RuleOrder    = "the earlier write came later"
	RuleReceipt  = "no receipt"
	RulePending  = "still pending"
	RuleLost     = "lost"
	RuleSilent   = "lost silently"
	RuleRefused  = "refused"
	RuleFinal    = "not the latest write"
	RuleAgree    = "a host disagrees"
	RuleBackward = "a read went backwards"
)

// Check returns all faults of a run, each rule's together.
func Check(h *History) []Fault {
	c := newChecker(h)
	c.versions()
	c.order()
	c.fates()
	c.finals()
	c.parted()
	c.reads()
	slices.SortStableFunc(c.faults, func(a, b Fault) int { return cmp.Compare(a.Rule, b.Rule) })
	return c.faults
}

// known is a write with what else is known of it.
type known struct {
	*Write
	at      int64 // microseconds since 1970; 0 if nobody knows
	receipt Receipt
	place   int // in the bucket's history of its entry, from 1 on; 0 if it is not there
}

type checker struct {
	*History
	writes  []*known
	of      map[Entry][]*known
	byValue map[string]*known
	bySeq   []map[uint64]*known
	names   map[string]int // of hosts in the bucket
	faults  []Fault
}

func newChecker(h *History) *checker {
	c := &checker{History: h, of: make(map[Entry][]*known), byValue: make(map[string]*known), names: make(map[string]int)}
	for range h.Receipts {
		c.bySeq = append(c.bySeq, make(map[uint64]*known))
	}
	for i := range h.Writes {
		w := &known{Write: &h.Writes[i]}
		c.writes = append(c.writes, w)
		c.of[w.Entry] = append(c.of[w.Entry], w)
		if !w.Delete {
			c.byValue[w.Value] = w
		}
		if w.Seq != 0 {
			c.bySeq[w.Host][w.Seq] = w
			w.receipt = h.Receipts[w.Host][w.Seq]
			w.at = w.receipt.WrittenAt
		}
	}
	return c
}

func (c *checker) fault(rule string, e Entry, format string, args ...any) {
	c.faults = append(c.faults, Fault{rule, e, fmt.Sprintf(format, args...)})
}

// String names a write in a fault.
func (w *known) String() string {
	what := fmt.Sprintf("the value %.20q", w.Value)
	if w.Delete {
		what = "the delete"
	}
	return fmt.Sprintf("%s of host %d, seq %d, written at %d", what, w.Host, w.Seq, w.at)
}

// versions finds the writes of the bucket's versions, which must be later and later ones.
func (c *checker) versions() {
	for _, list := range c.Bucket { // values first: they tell the hosts' names
		for _, v := range list {
			if w := c.byValue[v.Value]; !v.Deleted && w != nil {
				if host, ok := c.names[v.Host]; ok && host != w.Host {
					c.fault(RuleKnown, w.Entry, "%s has the name %s of host %d in the bucket", w, v.Host, host)
				}
				c.names[v.Host] = w.Host
			}
		}
	}
	for e, list := range c.Bucket {
		for i, v := range list {
			if i > 0 && cmp.Or(cmp.Compare(v.WrittenAt, list[i-1].WrittenAt), cmp.Compare(v.Host, list[i-1].Host), cmp.Compare(v.Seq, list[i-1].Seq)) <= 0 {
				c.fault(RuleOrder, e, "revision %d, written at %d, has replaced revision %d, written at %d", v.Revision, v.WrittenAt, list[i-1].Revision, list[i-1].WrittenAt)
			}
			c.place(e, &v, i+1)
		}
	}
}

// place finds the write that a version is of.
func (c *checker) place(e Entry, v *Version, at int) {
	w := c.byValue[v.Value]
	if v.Deleted {
		if w = c.tombstone(e, v); w == nil && c.unanswered(e) {
			return // it may be that delete's
		}
	}
	if w == nil || w.Entry != e {
		c.fault(RuleKnown, e, "nobody has written revision %d, %.20q of %s, seq %d", v.Revision, v.Value, v.Host, v.Seq)
		return
	}
	if w.at != 0 && w.at != v.WrittenAt && !c.follows(w, v, at) {
		c.fault(RuleOneTime, e, "%s was written at %d in the bucket", w, v.WrittenAt)
	}
	w.at, w.place = v.WrittenAt, at
}

// follows reports whether a version follows one with the same content and a later time than the write's receipt has.
// A host that has no answer to its write and finds its content there sends it again, and an entry's times grow.
func (c *checker) follows(w *known, v *Version, at int) bool {
	if at == 1 {
		return false
	}
	before := c.Bucket[w.Entry][at-2]
	return before.WrittenAt > w.at && before.WrittenAt+1 == v.WrittenAt && before.Deleted == v.Deleted && before.Value == v.Value
}

// tombstone is the delete that a version is of. A delete has no value: its host's name and number tell.
func (c *checker) tombstone(e Entry, v *Version) *known {
	host, ok := c.names[v.Host]
	if !ok { // a host without a value in the bucket
		for _, w := range c.of[e] {
			if w.Delete && w.Seq == v.Seq && w.at == v.WrittenAt {
				return w
			}
		}
		return nil
	}
	if w := c.bySeq[host][v.Seq]; w != nil && w.Delete {
		return w
	}
	return nil
}

// unanswered reports whether a delete of the entry may have taken place without anybody's knowing its number.
func (c *checker) unanswered(e Entry) bool {
	return slices.ContainsFunc(c.of[e], func(w *known) bool { return w.Delete && w.Seq == 0 })
}

// order holds the writes of one host to one entry to the order of their numbers.
func (c *checker) order() {
	type line struct {
		host int
		Entry
	}
	lines := make(map[line][]*known)
	for _, w := range c.writes {
		if w.Seq != 0 && w.at != 0 {
			lines[line{w.Host, w.Entry}] = append(lines[line{w.Host, w.Entry}], w)
		}
	}
	for l, list := range lines {
		slices.SortFunc(list, func(a, b *known) int { return cmp.Compare(a.Seq, b.Seq) })
		for i := 1; i < len(list); i++ {
			if list[i].at <= list[i-1].at {
				c.fault(RuleOrder, l.Entry, "%s, follows %s", list[i], list[i-1])
			}
		}
	}
}

// latest is the write with the latest time of those to an entry that are known to have taken place.
func (c *checker) latest(e Entry) (last *known) {
	for _, w := range c.of[e] {
		if w.at != 0 && (last == nil || w.at > last.at) {
			last = w
		}
	}
	return last
}
