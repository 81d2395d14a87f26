package upstream

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/botwired/botwired/journal"
)

// doubt is what is known of an entry's requests that were sent and not answered: upstream
// may still carry out any of them (contract 14).
type doubt struct {
	// states are what those requests would leave upstream. unknown says that there may
	// be others, from before a restart.
	states  []content
	unknown bool
	// confirmed is the write that upstream has confirmed since. It is read back until
	// verifyUntil. nil before.
	confirmed   *journal.Write
	verifyUntil instant // 0 when nothing was confirmed since the last unanswered request
	repairs     int
	repaired    bool // once more after verifyUntil, when all that could land had landed
}

// content identifies what an entry holds.
type content struct {
	present bool
	sum     uint64
}

var contentSeed = maphash.MakeSeed()

func contentOf(w journal.Write) content {
	if w.Op == journal.Delete {
		return content{}
	}
	return content{true, maphash.String(contentSeed, w.Value)}
}

func observed(o *journal.Observation) content {
	if o == nil {
		return content{}
	}
	return content{true, maphash.String(contentSeed, o.Value)}
}

// add records one more unanswered request: the reading back begins anew.
func (d *doubt) add(w journal.Write) {
	if c := contentOf(w); !slices.Contains(d.states, c) {
		d.states = append(d.states, c) // an outage of days repeats itself
	}
	d.confirmed, d.verifyUntil, d.repaired = nil, 0, false
}

// allLeave reports whether every request that may still land would leave what w does.
func (d *doubt) allLeave(w journal.Write) bool {
	return d == nil || !d.unknown && !slices.ContainsFunc(d.states, func(c content) bool { return c != contentOf(w) })
}

// verify has a confirmed write read back until a time. The time does not move when a
// newer write or a repair takes the first one's place: the requests in doubt are the
// same, and two hosts that repair each other's writes would never end.
func (d *doubt) verify(w journal.Write, until instant) {
	if d.verifyUntil == 0 {
		d.verifyUntil = until
	}
	d.confirmed = &w
}

// verifying reports whether an entry's newest write needs nothing but to be read back.
func (d *doubt) verifying(newest uint64) bool {
	return d != nil && d.confirmed != nil && d.confirmed.Seq >= newest
}

// mayBe reports whether one of the unanswered requests can have left c.
func (d *doubt) mayBe(c content) bool {
	return !d.repaired && (d.unknown || slices.Contains(d.states, c))
}

// repair notes that the confirmed write is to be sent once more, and says when: more and
// more slowly, as another host may be at work on the entry too, and for the last time
// when all that can land has landed.
func (d *doubt) repair(now instant, initial, longest time.Duration) instant {
	d.confirmed = nil
	d.repaired = now >= d.verifyUntil
	d.repairs++
	if d.repaired || d.repairs == 1 {
		return now
	}
	return min(d.verifyUntil, now+instant(min(longest, initial<<min(d.repairs, 16))))
}
