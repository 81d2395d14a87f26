package flush

import (
	"cmp"
	"math"
	"slices"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// question is all by which a fence decides: may a write take the place of what upstream holds?
// docs/contract.md, 17, has the rules.
type question struct {
	write journal.Write
	base  journal.Base      // what this host believes upstream to hold
	own   []journal.Content // what this host's requests may have left there since

	now     upstream.Version // what upstream holds
	valued  bool             // upstream itself has shown now, with its value
	refused bool             // upstream refuses for good to say what it holds
	fenced  bool             // else the write takes the place of whatever there is

	// losesTies says that of two states of which nobody knows which is later, the other one wins: the
	// write is a copy of an older state, or from before this host was in doubt about itself.
	losesTies bool
	// oldBefore is the time, in Unix seconds by the clock of now's time, before which a state is old: if
	// this host knew nothing of the entry, to take its place is no conflict. Minus infinity if there is none.
	oldBefore float64

	exactly    *exactly    // for an exact engine
	byTime     byTime      // for any other
	conditions *conditions // of a write through; nil for a pending write
}

// exactly is what an exact engine's versions say beyond their times.
type exactly struct {
	host string // whose write it is
	// proposedAt is the time, in microseconds, with which this send attempt last proposed the
	// write; 0 if it has not.
	proposedAt int64
}

// byTime is what a state without a version is judged by: upstream's clock.
type byTime struct {
	offset upstream.Span // by how much upstream's clock was ahead when the write was made
	// baseBefore is when upstream had carried out the write that made the base, at the latest, by
	// its own clock; plus infinity if nobody knows. It matters while upstream has not shown the
	// base with its time.
	baseBefore float64
	unknown    bool // there are requests of this host's that may have left anything
	mayAsk     bool // another answer would narrow the offset
}

// conditions are those of a write through, which is made now: it is later than what there is.
type conditions struct {
	lacked bool // a delete would find nothing here
	alone  bool // nothing of the entry was pending
	// onBase says that the write takes the place of the base only, and of this host's own states.
	onBase bool
}

// outcome is what a fence has decided.
type outcome uint8

const (
	fenceUnchanged outcome = iota // upstream holds what this host believes, or one of its own states: send
	fenceAbsent                   // upstream does not hold the entry: send
	fenceOld                      // another host's state from before this host cared: send
	fenceSame                     // upstream holds the very value of the write, of an earlier time: send
	fenceWon                      // another host's state is older: keep it aside, and send
	fenceHeld                     // upstream holds what the write would leave: settle
	fenceLost                     // another host's state is later: it stays
	fenceUndecided                // nobody knows which state is later: ask again
	fenceFailed                   // upstream could not be asked
	fenceOwn                      // upstream holds this very write: settle
	fenceConflict                 // upstream has another version by now: judge again
	fenceOutcomes
)

// String is the outcome as metrics name it.
func (o outcome) String() string {
	return [...]string{"unchanged", "absent", "old", "same", "won", "held", "lost", "undecided", "failed", "own", "conflict"}[o]
}

// judge decides. Of two states the later one wins, by the time at which it was written, and a state
// that the write was made on is earlier than it. Where it is not known which one is later, the write
// wins, and the other state is kept; but a write that loses ties loses.
//
// It returns fenceUndecided if it depends on the value, which is not known, or on a better estimate of
// the offset. It returns fenceFailed if upstream does not say what it holds: then it says so to the
// write, too.
func (q *question) judge() outcome {
	if q.refused {
		return fenceFailed
	}
	if q.named() {
		switch {
		case !q.hasValue():
			return fenceUndecided
		case q.isThis():
			return fenceOwn
		}
	}
	if end, decided := q.ofNothing(); decided {
		return end
	}
	later, earlier := q.compare()
	known := !q.byTime.unknown
	switch {
	case q.same() && (later || !earlier && q.isOwn() && !q.isBase()):
		return fenceHeld // to send it again would make it later than its writer's next one
	case q.isBase() && (!later || !q.precedes()): // guard 17.16
		return fenceUnchanged
	case q.needsValue():
		return fenceUndecided
	case q.isOwn(): // guard 17.36
		return fenceUnchanged
	case q.conditions != nil && q.conditions.onBase:
		return q.certain(fenceLost)
	case !q.fenced:
		return fenceUnchanged
	case !later && !q.base.Known && q.now.WrittenAt < q.oldBefore:
		return fenceOld
	case !q.hasValue():
		return fenceUndecided
	case q.same():
		return fenceSame
	case later && known: // guard 17.15
		return fenceLost
	case !later && !earlier && q.byTime.mayAsk && known: // guard 17.22
		return fenceUndecided
	case !earlier && q.losesTies && known:
		return fenceLost
	}
	return fenceWon
}

// ofNothing decides where upstream holds no value, if that is enough.
func (q *question) ofNothing() (end outcome, decided bool) {
	removes := q.write.Op == journal.Delete
	switch {
	case q.now.Present():
		return 0, false
	case q.conditions != nil && removes && q.conditions.lacked:
		return q.certain(fenceHeld), true // there is nothing to delete
	case q.conditions != nil && !q.base.Present:
		return fenceAbsent, true
	case q.now.Revision != 0: // a tombstone has a time
		return 0, false
	case removes && q.exactly == nil:
		return fenceHeld, true
	}
	return fenceAbsent, true // a delete leaves a tombstone, or an older put would come back
}

// certain is a decision against the write, if upstream itself has shown the version.
func (q *question) certain(end outcome) outcome {
	if !q.valued {
		return fenceUndecided
	}
	return end
}

// compare reports whether what upstream holds is certainly later than the write, or earlier.
func (q *question) compare() (later, earlier bool) {
	switch {
	case q.conditions != nil:
		return false, true
	case q.exactly != nil:
		later = cmp.Or(
			cmp.Compare(micros(q.now.WrittenAt), micros(q.writtenAt())),
			cmp.Compare(q.now.Writer.Host, q.exactly.host),
			cmp.Compare(q.now.Writer.Seq, q.write.Seq),
		) >= 0
		return later, !later
	}
	at, offset := q.now.WrittenAt, q.byTime.offset
	return at > q.write.WrittenAt+offset.Most, at <= q.write.WrittenAt+offset.Least
}

// writtenAt is the time by which the write is compared with a version. UpdatedAt is later than all
// that this host knew when it took the write in. A write that was made before goes by the time when it
// was made.
func (q *question) writtenAt() float64 {
	if q.write.Fenced || q.losesTies {
		return min(q.write.UpdatedAt, q.write.WrittenAt)
	}
	return q.write.UpdatedAt
}

// precedes reports whether the write may be older than its base: it is a copy of an older state, or
// the base is another host's state that may have become known while the write was pending. In front of
// an exact engine the base stays what the write was made on.
func (q *question) precedes() bool {
	return q.write.LosesTies || q.exactly == nil && q.base.Origin.Seq == 0
}

// named reports whether the version says that it is this very write. A copied data directory says
// the same of another one.
func (q *question) named() bool {
	return q.exactly != nil && q.now.Writer == upstream.Writer{Host: q.exactly.host, Seq: q.write.Seq} &&
		(q.write.Seq != 0 || q.exactly.proposedAt != 0)
}

// isThis reports whether a version that is named so is this write, whose answer was lost.
func (q *question) isThis() bool {
	at := micros(q.now.WrittenAt)
	if q.write.Seq == 0 {
		return q.same() && at == q.exactly.proposedAt
	}
	return q.same() && at >= micros(q.write.UpdatedAt)
}

// isOwn reports whether one of this host's requests may have left what upstream holds.
func (q *question) isOwn() bool {
	switch {
	case q.exactly == nil:
		return slices.Contains(q.own, q.content())
	case !q.isOlder():
		return false
	case !q.base.Known:
		return true // the copy of it has made room for others
	}
	return q.hasValue() && slices.Contains(q.own, q.content()) // or a copied data directory has written it
}

// isOlder reports whether the version says that it is an older write of this host's, or one that went
// through.
func (q *question) isOlder() bool {
	by := q.now.Writer
	return q.exactly != nil && by.Host == q.exactly.host && (by.Seq < q.write.Seq || q.write.Seq == 0)
}

// needsValue reports whether only the value tells if the version is this host's own.
func (q *question) needsValue() bool { return q.isOlder() && q.base.Known && !q.hasValue() }

// isBase reports whether nobody has changed the entry since this host was told of it.
func (q *question) isBase() bool {
	switch {
	case !q.base.Known || q.base.Present == q.now.Deleted:
		return false
	case q.exactly != nil:
		return q.isBaseVersion()
	}
	return q.isBaseState()
}

// isBaseVersion is isBase for an exact engine. No two versions of an entry have the same time. A later
// one with the number of the base is by a copy of this host's data directory: this host's copy of its
// own version is never earlier than that.
func (q *question) isBaseVersion() bool {
	b, at := q.base, micros(q.now.WrittenAt)
	switch {
	case !b.Present: // another host's delete leaves what this host knew
		later, _ := q.compare()
		return !later
	case b.Origin.Seq != 0 && q.now.Writer == upstream.Writer{Host: q.exactly.host, Seq: b.Origin.Seq}:
		return at <= micros(b.UpdatedAt)
	}
	return at == micros(b.UpdatedAt) || b.Origin.At != 0 && at == micros(b.Origin.At) // guard 17.32
}

// isBaseState is isBase for any other engine. Another host may write the value again that was there
// before: the time tells. A replica of upstream's that is behind shows an older state: that is none of
// another host's.
func (q *question) isBaseState() bool {
	b, at := q.base, q.now.WrittenAt
	switch {
	case b.Origin.At != 0:
		return at < b.Origin.At || at == b.Origin.At && q.content() == b.Content // guard 17.17
	case q.content() == b.Content:
		return at <= q.byTime.baseBefore // guard 17.18
	}
	return at <= b.Origin.After
}

func (q *question) hasValue() bool { return q.valued || q.now.Deleted }

func (q *question) same() bool { return q.hasValue() && q.content() == contentOf(q.write) }

func (q *question) content() journal.Content { return contentAt(q.now) }

// contentAt is the content of a version that is known with its value.
func contentAt(v upstream.Version) journal.Content {
	if !v.Present() {
		return journal.ContentOf(journal.Delete, "")
	}
	return journal.ContentOf(journal.Put, v.Value)
}

// micros is a time in Unix seconds as an engine keeps it.
func micros(seconds float64) int64 { return int64(math.Round(seconds * 1e6)) }
