package fence

import (
	"cmp"
	"slices"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Question holds all by which a fence decides whether a write may take the place of what upstream holds
// (contract 17).
type Question struct {
	Write journal.Write
	Base  journal.Base      // what this host believes upstream to hold
	Own   []journal.Content // what this host's requests may have left there since

	Now     upstream.Version // what upstream holds
	Valued  bool             // upstream itself has shown Now, with its value
	Refused bool             // upstream refuses for good to say what it holds
	Fenced  bool             // else the write takes the place of whatever there is

	// LosesTies says that of two states of which nobody knows which is later, the other one wins: the
	// write is a copy of an older state, or from before this host was in doubt about itself.
	LosesTies bool
	// OldBefore is the time, in Unix seconds by the clock of Now's time, before which a state is old: if
	// this host knew nothing of the entry, to take its place is no conflict. Minus infinity if there is
	// none.
	OldBefore float64

	Exactly    *Exactly    // for an exact engine
	ByTime     ByTime      // for any other
	Conditions *Conditions // of a write through; nil for a pending write
}

// Exactly names the writer of the write, for comparison with an exact engine's versions.
type Exactly struct {
	Host string // whose write it is
	// ProposedAt is the time, in microseconds, with which this send attempt last proposed the
	// write; 0 if it has not.
	ProposedAt int64
}

// ByTime has what is known of upstream's clock, for states of which upstream tells no writer.
type ByTime struct {
	Offset Span // by how much upstream's clock was ahead when the write was made
	// BaseBefore is when upstream had carried out the write that made the base, at the latest, by
	// its own clock; plus infinity if nobody knows. It matters while upstream has not shown the
	// base with its time.
	BaseBefore float64
	Unknown    bool // there are requests of this host's that may have left anything
	MayAsk     bool // another answer would narrow the offset
}

// Conditions are those of a write through, which is made now: it is later than what there is.
type Conditions struct {
	Lacked bool // a delete would find nothing here
	// OnBase says that the write takes the place of the base only, and of this host's own states.
	OnBase bool
}

// Outcome is a decision of a fence, or how its send attempt has ended.
type Outcome uint8

// The outcomes.
const (
	Unchanged Outcome = iota // upstream holds what this host believes, or one of its own states: send
	Absent                   // upstream does not hold the entry: send
	Old                      // another host's state from before this host cared: send
	Same                     // upstream holds the very value of the write, not its state: send
	Won                      // another host's state is older: keep it aside, and send
	Held                     // upstream holds what the write would leave: settle
	Lost                     // another host's state is later: it stays
	Undecided                // nobody knows which state is later: ask again
	Failed                   // upstream could not be asked
	Own                      // upstream holds this very write: settle
	Conflict                 // upstream has another version by now: judge again
)

// String is the outcome as metrics name it.
func (o Outcome) String() string {
	return [...]string{"unchanged", "absent", "old", "same", "won", "held", "lost", "undecided", "failed", "own", "conflict"}[o]
}

// Judge decides. Of two states the later one wins, by the time at which it was written, and a state
// that the write was made on is earlier than it. Where it is not known which one is later, the write
// wins, and the other state is kept; but a write that loses ties loses.
//
// It returns Undecided if it depends on the value, which is not known, or on a better estimate of
// the offset. It returns Failed if upstream does not say what it holds: then it says so to the
// write, too.
func (q *Question) Judge() Outcome {
	if q.Refused {
		return Failed
	}
	if q.named() {
		switch {
		case !q.hasValue():
			return Undecided
		case q.isThis():
			return Own
		}
	}
	if end, decided := q.ofNothing(); decided {
		return end
	}
	later, earlier := q.compare()
	known := !q.ByTime.Unknown
	switch {
	case q.Exactly == nil && q.same() && (later || !earlier && q.isOwn() && !q.IsBase()):
		return Held // to send it again would make it as late as that
	case q.IsBase() && (!later || !q.precedes()): // guard 17.16
		return Unchanged
	case q.needsValue():
		return Undecided
	case q.isOwn(): // guard 17.36
		return Unchanged
	case q.Conditions != nil && q.Conditions.OnBase:
		return q.certain(Lost)
	case !q.Fenced:
		return Unchanged
	case !later && !q.Base.Known && q.Now.WrittenAt < q.OldBefore:
		return Old
	case !q.hasValue():
		return Undecided
	case q.same() && later && len(q.Own) == 0: // guard 17.37
		// No request of this host's may still take its place, and to send the write would make it later
		// than its writer's next one.
		return Held
	case q.same():
		return Same
	case later && known: // guard 17.15
		return Lost
	case !later && !earlier && q.ByTime.MayAsk && known: // guard 17.22
		return Undecided
	case !earlier && q.LosesTies && known:
		return Lost
	}
	return Won
}

// ofNothing decides where upstream holds no value, if that is enough.
func (q *Question) ofNothing() (end Outcome, decided bool) {
	removes := q.Write.Op == journal.Delete
	switch {
	case q.Now.Present():
		return 0, false
	case q.Conditions != nil && removes && q.Conditions.Lacked:
		return q.certain(Held), true // there is nothing to delete
	case q.Conditions != nil && !q.Base.Present:
		return Absent, true
	case q.Now.Revision != 0: // a tombstone has a time
		return 0, false
	case removes && q.Exactly == nil:
		return Held, true
	}
	return Absent, true // a delete leaves a tombstone, or an older put would come back
}

// certain is a decision against the write, if upstream itself has shown the version.
func (q *Question) certain(end Outcome) Outcome {
	if !q.Valued {
		return Undecided
	}
	return end
}

// compare reports whether what upstream holds is certainly later than the write, or earlier.
func (q *Question) compare() (later, earlier bool) {
	switch {
	case q.Conditions != nil:
		return false, true
	case q.Exactly != nil:
		later = cmp.Or(
			cmp.Compare(upstream.Micros(q.Now.WrittenAt), upstream.Micros(q.writtenAt())),
			cmp.Compare(q.Now.Writer.Host, q.Exactly.Host),
			cmp.Compare(q.Now.Writer.Seq, q.Write.Seq),
		) >= 0
		return later, !later
	}
	at, offset := q.Now.WrittenAt, q.ByTime.Offset
	return at > q.Write.WrittenAt+offset.Most, at <= q.Write.WrittenAt+offset.Least
}

// writtenAt is the time by which the write is compared with a version. UpdatedAt is later than all
// that this host knew when it took the write in. A write that was made before goes by the time when it
// was made.
func (q *Question) writtenAt() float64 {
	if q.Write.Fenced || q.LosesTies {
		return min(q.Write.UpdatedAt, q.Write.WrittenAt)
	}
	return q.Write.UpdatedAt
}

// precedes reports whether the write may be older than its base: it is a copy of an older state, or
// the base is another host's state that may have become known while the write was pending. In front of
// an exact engine the base stays what the write was made on.
func (q *Question) precedes() bool {
	return q.Write.LosesTies || q.Exactly == nil && q.Base.Origin.Seq == 0
}

// named reports whether the version says that it is this very write. A copied data directory says
// the same of another one.
func (q *Question) named() bool {
	return q.Exactly != nil && q.Now.Writer == upstream.Writer{Host: q.Exactly.Host, Seq: q.Write.Seq} &&
		(q.Write.Seq != 0 || q.Exactly.ProposedAt != 0)
}

// isThis reports whether a version that is named so is this write, whose answer was lost.
func (q *Question) isThis() bool {
	at := upstream.Micros(q.Now.WrittenAt)
	if q.Write.Seq == 0 {
		return q.same() && at == q.Exactly.ProposedAt
	}
	return q.same() && at >= upstream.Micros(q.Write.UpdatedAt)
}

// isOwn reports whether one of this host's requests may have left what upstream holds.
func (q *Question) isOwn() bool {
	switch {
	case q.Exactly == nil:
		return slices.Contains(q.Own, q.content())
	case !q.isOlder():
		return false
	case !q.Base.Known:
		return true // the copy of it has made room for others
	}
	return q.hasValue() && slices.Contains(q.Own, q.content()) // or a copied data directory has written it
}

// isOlder reports whether the version says that it is an older write of this host's, or one that went
// through.
func (q *Question) isOlder() bool {
	by := q.Now.Writer
	return q.Exactly != nil && by.Host == q.Exactly.Host && (by.Seq < q.Write.Seq || q.Write.Seq == 0)
}

// needsValue reports whether only the value tells if the version is this host's own.
func (q *Question) needsValue() bool { return q.isOlder() && q.Base.Known && !q.hasValue() }

// IsBase reports whether nobody has changed the entry since this host was told of it.
func (q *Question) IsBase() bool {
	switch {
	case !q.Base.Known || q.Base.Present == q.Now.Deleted:
		return false
	case q.Exactly != nil:
		return q.isBaseVersion()
	}
	return q.isBaseState()
}

// isBaseVersion is IsBase for an exact engine. No two versions of an entry have the same time. A later
// one with the number of the base is by a copy of this host's data directory: this host's copy of its
// own version is never earlier than that.
func (q *Question) isBaseVersion() bool {
	b, at := q.Base, upstream.Micros(q.Now.WrittenAt)
	switch {
	case !b.Present: // another host's delete leaves what this host knew
		later, _ := q.compare()
		return !later
	case b.Origin.Seq != 0 && q.Now.Writer == upstream.Writer{Host: q.Exactly.Host, Seq: b.Origin.Seq}:
		return at <= upstream.Micros(b.UpdatedAt)
	}
	return at == upstream.Micros(b.UpdatedAt) || b.Origin.At != 0 && at == upstream.Micros(b.Origin.At) // guard 17.32
}

// isBaseState is IsBase for any other engine. Another host may write the value again that was there
// before: the time tells. A replica of upstream's that is behind shows an older state: that is none of
// another host's.
func (q *Question) isBaseState() bool {
	b, at := q.Base, q.Now.WrittenAt
	switch {
	case b.Origin.At != 0:
		return at < b.Origin.At || at == b.Origin.At && q.content() == b.Content // guard 17.17
	case q.content() == b.Content:
		return at <= q.ByTime.BaseBefore // guard 17.18
	}
	return at <= b.Origin.After
}

func (q *Question) hasValue() bool { return q.Valued || q.Now.Deleted }

func (q *Question) same() bool {
	return q.hasValue() && q.content() == journal.ContentOf(q.Write.Op, q.Write.Value)
}

func (q *Question) content() journal.Content { return q.Now.Content() }
