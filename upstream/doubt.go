package upstream

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/botwired/botwired/journal"
)

// doubt is what is known of requests of an entry that were sent and not answered:
// any of them may still be carried out (contract 14).
type doubt struct {
	// states are what those requests would leave upstream. unknown says that there
	// may be others, from before a restart.
	states  []content
	unknown bool
	// watched is the write that upstream has confirmed since, and that is read back
	// until watchUntil; nil before.
	watched    *journal.Write
	watchUntil instant // 0 when nothing was confirmed since the last unanswered request
	repairs    int
	repaired   bool // once more after watchUntil, when all that could land had landed
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

// add records one more unanswered request: the watch begins anew.
func (d *doubt) add(w journal.Write) {
	if c := contentOf(w); !slices.Contains(d.states, c) {
		d.states = append(d.states, c) // an outage of days repeats itself
	}
	d.watched, d.watchUntil, d.repaired = nil, 0, false
}

// moot reports whether nothing that may land differs from w.
func (d *doubt) moot(w journal.Write) bool {
	return d == nil || !d.unknown && !slices.ContainsFunc(d.states, func(c content) bool { return c != contentOf(w) })
}

// watch begins to watch over a confirmed write. What was watched before has been
// watched for this one too: neither a newer write nor a repair prolongs it, or two
// hosts that repair each other's writes would never end.
func (d *doubt) watch(w journal.Write, until instant) {
	if d.watchUntil == 0 {
		d.watchUntil = until
	}
	d.watched = &w
}

// repair notes that the watched write is to be sent once more, and says when: more
// and more slowly, as another host may be at work on the entry too, and for the last
// time when all that can land has landed.
func (d *doubt) repair(now instant, initial, longest time.Duration) instant {
	d.watched = nil
	d.repaired = now >= d.watchUntil
	d.repairs++
	if d.repaired || d.repairs == 1 {
		return now
	}
	return min(d.watchUntil, now+instant(min(longest, initial<<min(d.repairs, 16))))
}

// watching reports whether there is nothing to do for a newest write but to read it
// back.
func (d *doubt) watching(newest uint64) bool {
	return d != nil && d.watched != nil && d.watched.Seq >= newest
}

// landed reports whether c can be the work of one of the unanswered requests.
func (d *doubt) landed(c content) bool {
	return !d.repaired && (d.unknown || slices.Contains(d.states, c))
}

// unsure reports whether upstream may hold a write to the entry that has not settled: one
// that was not answered, one that is watched, or one that upstream failed over, of which
// nobody knows how far it got.
func (t *task) unsure() bool {
	return t.trouble != nil && (t.trouble.doubt != nil || t.trouble.attempts > 0)
}
