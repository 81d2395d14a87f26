package upstream

import (
	"hash/maphash"
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
	watchUntil time.Time
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

// add records one more unanswered request.
func (d *doubt) add(w journal.Write) {
	d.states = append(d.states, contentOf(w))
	d.watched, d.watchUntil = nil, time.Time{}
}

// moot reports whether nothing that may land differs from w.
func (d *doubt) moot(w journal.Write) bool {
	if d == nil {
		return true
	}
	for _, c := range d.states {
		if c != contentOf(w) {
			return false
		}
	}
	return !d.unknown
}

// watch begins to watch over a confirmed write. What was watched before has been
// watched for this one too.
func (d *doubt) watch(w journal.Write, until time.Time) {
	if d.watchUntil.IsZero() {
		d.watchUntil = until
	}
	d.watched = &w
}

// landed reports whether c can be the work of one of the unanswered requests.
func (d *doubt) landed(c content) bool {
	if d.unknown {
		return true
	}
	for _, s := range d.states {
		if s == c {
			return true
		}
	}
	return false
}
