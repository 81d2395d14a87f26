package fence

import (
	"cmp"
	"slices"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// Question holds all the facts by which a fence decides whether a write may replace the state that
// upstream holds (contract 17).
type Question struct {
	Write journal.Write
	Base  journal.Base      // what this host expects upstream to hold
	Own   []journal.Content // what this host's requests may have left there since

	Now     upstream.Version // what upstream holds
	Valued  bool             // upstream itself has returned Now, with its value
	Refused bool             // upstream permanently refuses to say what it holds
	// OnBase says that the write may replace only the base and this host's own states: its caller's condition
	// was judged by the base.
	OnBase bool

	// OldBefore is a time in Unix seconds, by the clock of Now's time. Replacing a state from before it
	// is no conflict if this host knew nothing of the entry. Minus infinity: none.
	OldBefore float64

	Exactly *Exactly // if versions name their writer and time; otherwise nil
	ByTime  ByTime   // if they do not
}

// Exactly identifies the write, for comparison with versions that name their writer and time. All times
// of the question are then those that versions name.
type Exactly struct {
	Host string // the host that makes the write
	// Tombstones says that a delete leaves a version, too.
	Tombstones bool
	// Wrote says that the version has the number of an older write of this data directory to the entry, and
	// that the copy of it was evicted.
	Wrote bool
}

// ByTime holds what counts for engines that do not name a version's writer.
type ByTime struct {
	// WrittenAt is the time of the write, by upstream's clock. See [Ahead].
	WrittenAt float64
	// BaseBefore is the latest time, by upstream's clock, at which upstream carried out the write that
	// made the base; plus infinity if unknown. It matters while upstream has not shown the base with
	// its time.
	BaseBefore float64
	Evicted    bool // the base was remembered without a copy: the write's maker may not have known it
	Unknown    bool // requests of this host with unknown contents may have landed
}

// Outcome is a decision of a fence, or the result of its send attempt.
type Outcome uint8

// The outcomes.
const (
	Unchanged Outcome = iota // upstream holds the expected state, or one of this host's own: send
	Absent                   // upstream does not hold the entry: send
	Old                      // another host's state from before OldBefore: send
	Same                     // upstream holds the write's value, but not its state: send
	Won                      // another host's state is older: keep a copy of it, and send
	Held                     // upstream holds what the write would leave: settle
	Lost                     // another host's state is later: it stays
	Undecided                // the value decides, and is unknown: ask for it
	Failed                   // upstream could not be asked
	Own                      // upstream holds this very write: settle
	Conflict                 // upstream now has another version: judge again
)

// String returns the outcome's name in metrics.
func (o Outcome) String() string {
	return [...]string{"unchanged", "absent", "old", "same", "won", "held", "lost", "undecided", "failed", "own", "conflict"}[o]
}

// Judge decides. Of two states the later one wins, by the time at which it was written; the write is
// later than the state that it was made on. Of two states of one time the write wins, unless it is a copy
// of an older state.
//
// Judge returns Undecided if the decision depends on upstream's own answer with the value. It returns
// Failed if upstream refuses to say what it holds: then it refuses the write in the same way.
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
	later, _ := q.compare()
	switch {
	case q.Exactly == nil && q.same() && (later || q.isOwn() && !q.IsBase() && q.Now.WrittenAt > q.ByTime.WrittenAt-Agree):
		return Held // sending it again would make it as late as that
	case q.IsBase() && (!later || !q.precedes()): // guard 17.16
		return Unchanged
	case q.needsValue():
		return Undecided
	case q.isOwn(): // guard 17.36
		return Unchanged
	case q.OnBase: // guard 5.41
		return q.certain(Lost)
	case !later && !q.Base.Known && !q.Base.Listed && q.Now.WrittenAt < q.OldBefore: // guard 17.68
		return Old
	case !q.hasValue():
		return Undecided
	case q.same() && later && len(q.Own) == 0: // guard 17.37
		// No request of this host may still replace it, and sending the write would make it later than
		// its writer's next one.
		return Held
	case q.same():
		return Same
	case later && !q.ByTime.Unknown: // guard 17.15
		return Lost
	}
	return Won
}

// ofNothing decides for the cases in which it is enough that upstream holds no value.
func (q *Question) ofNothing() (end Outcome, decided bool) {
	removes := q.Write.Op == journal.Delete
	switch {
	case q.Now.Present():
		return 0, false
	case q.OnBase && !q.Base.Present:
		return Absent, true
	case q.Now.Revision != 0: // a tombstone has a time
		return 0, false
	case removes && (q.Exactly == nil || !q.Exactly.Tombstones): // guard 17.40
		return Held, true
	}
	return Absent, true // a delete leaves a tombstone, or an older put would come back
}

// certain returns a decision against the write if upstream itself has returned the version, and
// otherwise Undecided.
func (q *Question) certain(end Outcome) Outcome {
	if !q.Valued {
		return Undecided
	}
	return end
}

// compare reports whether upstream's state is later, or earlier, than the write. It is neither if this
// host's clock and its numbers contradict each other.
func (q *Question) compare() (later, earlier bool) {
	switch {
	case q.OnBase:
		return false, true
	case q.Exactly != nil:
		later = cmp.Or(
			cmp.Compare(upstream.Micros(q.Now.WrittenAt), upstream.Micros(q.writtenAt())),
			cmp.Compare(q.Now.Writer.Host, q.Exactly.Host),
			cmp.Compare(q.Now.Writer.Seq, q.Write.Seq),
		) >= 0
		if later && q.Exactly.Wrote && !q.Write.Fenced { // guard 17.43
			return false, false // the clock says another thing than the numbers, which order this host's writes
		}
	case q.Write.LosesTies: // guard 17.66
		later = q.Now.WrittenAt >= q.ByTime.WrittenAt
	default:
		later = q.Now.WrittenAt > q.ByTime.WrittenAt
	}
	return later, !later
}

// writtenAt returns the time by which the write is compared with a version. That is UpdatedAt, which is
// later than all that this host knew when it accepted the write. A fenced write, and one that loses
// ties, may be older: it uses WrittenAt if that is earlier.
func (q *Question) writtenAt() float64 {
	if q.Write.Fenced || q.Write.LosesTies {
		return min(q.Write.UpdatedAt, q.Write.WrittenAt)
	}
	return q.Write.UpdatedAt
}

// precedes reports whether the write may be older than its base. Another host's base may have become known while
// the write was pending. A copy of an older state may be older than this host's own base, too, if its maker did not
// know that, or has copied it. If versions name their times, any other write is later than its base.
func (q *Question) precedes() bool {
	if !q.Write.LosesTies {
		return q.Exactly == nil && q.Base.Origin.Seq == 0
	}
	return q.Base.Origin.Seq == 0 || q.ByTime.Evicted || q.Base.Content == journal.ContentOf(q.Write.Op, q.Write.Value) // guard 17.57
}

// named reports whether the version has this host and this write's number as its writer. With a copied
// data directory, another write may have them, too.
func (q *Question) named() bool {
	return q.Exactly != nil && q.Now.Writer == upstream.Writer{Host: q.Exactly.Host, Seq: q.Write.Seq}
}

// isThis reports, if named does, whether the version is this write, whose answer was lost.
func (q *Question) isThis() bool {
	at := upstream.Micros(q.Now.WrittenAt)
	return q.same() && at >= upstream.Micros(q.Write.UpdatedAt)
}

// isOwn reports whether one of this host's requests may have left the state that upstream holds.
func (q *Question) isOwn() bool {
	_, earlier := q.compare()
	switch {
	case q.Exactly == nil:
		return slices.Contains(q.Own, q.content())
	case !q.isOlder():
		return false
	case !q.Base.Known && earlier: // guard 17.42
		return true // the copy of it was evicted
	}
	return q.hasValue() && slices.Contains(q.Own, q.content()) // otherwise a copied data directory has written it
}

// isOlder reports whether the version's writer is this host with an older write.
func (q *Question) isOlder() bool {
	by := q.Now.Writer
	return q.Exactly != nil && by.Host == q.Exactly.Host && by.Seq < q.Write.Seq
}

// needsValue reports whether only the value tells if the version is this host's own.
func (q *Question) needsValue() bool { return q.isOlder() && q.Base.Known && !q.hasValue() }

// IsBase reports whether the entry is unchanged since this host learned of it.
func (q *Question) IsBase() bool {
	switch {
	case !q.Base.Known || q.Base.Present == q.Now.Deleted:
		return false
	case q.Exactly != nil:
		return q.isBaseVersion()
	}
	return q.isBaseState()
}

// isBaseVersion reports whether the version is the base, if versions name their writer and time. A later version
// with the number of the base comes from a copy of this host's data directory: this host's copy of its own version
// is never earlier than the version.
func (q *Question) isBaseVersion() bool {
	b, at := q.Base, upstream.Micros(q.Now.WrittenAt)
	switch {
	case !b.Present: // another host's delete leaves the same state
		later, _ := q.compare()
		return !later
	case b.Origin.Seq != 0 && q.Now.Writer == upstream.Writer{Host: q.Exactly.Host, Seq: b.Origin.Seq}:
		return at <= upstream.Micros(b.UpdatedAt)
	case q.hasValue() && q.content() != b.Content: // another host's, of the same time
		return false
	}
	return at == upstream.Micros(b.UpdatedAt) || b.Origin.At != 0 && at == upstream.Micros(b.Origin.At) // guard 17.32
}

// isBaseState reports whether the version is the base, if versions name no writer. Another host
// may write the previous value again: only the time shows that. A replica of upstream that is behind
// shows an older state, which is not another host's change.
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
