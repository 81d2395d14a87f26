package upstream

import (
	"slices"
	"time"

	"github.com/botwired/botwired/journal"
)

// question is what a fence has to decide: whether a write may overwrite what upstream holds.
type question struct {
	write journal.Write
	base  journal.Base // what this host believes upstream to hold
	// baseBefore is when upstream had carried out the write that made the base, at the latest, by
	// its own clock; plus infinity if nobody knows. It matters while upstream has not shown the
	// base with its time.
	baseBefore float64
	own        []journal.Content    // what this host's requests may have left there since
	unknown    bool                 // there are requests of this host's that may have left anything
	found      *journal.Observation // what upstream holds; nil if nothing
	offset     Span                 // by how much upstream's clock was ahead when the write was made
	// oldBefore is the time, by upstream's clock, before which a state is old: if this host knew
	// nothing of the entry, to overwrite it is no conflict. Minus infinity if there is none.
	oldBefore float64
	mayAsk    bool // another answer would narrow the offset
	// losesTies says that of two states of which nobody knows which is later, the other one wins: the
	// write is a copy of an older state, or from before this host was in doubt about itself.
	losesTies bool
}

// outcome is what a fence has decided.
type outcome uint8

const (
	fenceUnchanged outcome = iota // upstream holds what this host believes, or one of its own states: send
	fenceAbsent                   // upstream does not hold the entry: send a put
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

// judge decides. Of two states the later one wins, by the time at which it was written
// (contract 17): the write's is this host's time, moved by the offset between the clocks;
// that of another host's state is upstream's updated_at, as upstream keeps no other. Where the
// offset is not known well enough, the write wins, and the other state is kept; but a write that
// losesTies loses.
func judge(q *question) outcome {
	removes := q.write.Op == journal.Delete
	switch {
	case q.found == nil && removes:
		return fenceHeld
	case q.found == nil:
		return fenceAbsent // if another host has deleted it, nobody knows when
	}
	content := observed(q.found)
	later, earlier := q.compare()
	same := content == contentOf(q.write)
	switch {
	case same && (later || !earlier && q.isOwn(content) && !q.isBase(content)):
		return fenceHeld // to send it again would make it as late as that
	// guard 17.16
	case q.isOwn(content), q.isBase(content) && (!later || !q.precedes()):
		return fenceUnchanged
	case same:
		return fenceSame
	case later && !q.unknown: // guard 17.15
		return fenceLost
	case !later && !earlier && q.mayAsk && !q.unknown: // guard 17.22
		return fenceUndecided
	case !q.base.Known && q.found.UpdatedAt < q.oldBefore:
		return fenceOld
	case !earlier && q.losesTies && !q.unknown:
		return fenceLost
	}
	return fenceWon
}

// compare reports whether what upstream holds is certainly later than the write, or earlier.
func (q *question) compare() (later, earlier bool) {
	at := q.found.UpdatedAt
	return at > q.write.WrittenAt+q.offset.Most, at <= q.write.WrittenAt+q.offset.Least
}

// precedes reports whether the write may be older than its base: another host's state that became
// known while the write was pending, or any if the write is a copy of an older state.
func (q *question) precedes() bool { return q.base.Origin.Seq == 0 || q.write.LosesTies }

// isOwn reports whether one of this host's requests may have left what upstream holds.
func (q *question) isOwn(content journal.Content) bool { return slices.Contains(q.own, content) }

// isBase reports whether nobody has changed the entry since this host was told of it. Another host
// may write the value again that was there before: the time tells. A replica of upstream's that is
// behind shows an older state: that is none of another host's.
func (q *question) isBase(content journal.Content) bool {
	b, at := q.base, q.found.UpdatedAt
	switch {
	case !b.Known || !b.Present:
		return false
	case b.Origin.At != 0:
		return at < b.Origin.At || at == b.Origin.At && content == b.Content // guard 17.17
	case content == b.Content:
		return at <= q.baseBefore // guard 17.18
	}
	return at <= b.Origin.After
}

const (
	// fenceAge is how old the answer of a fence may be when the write leaves. It is more if the
	// process or the machine has stood still meanwhile; then upstream is asked once more.
	fenceAge = 2 * time.Second
	// fenceTries bounds how often a fence asks. An upstream that takes longer than fenceAge would
	// never get a write otherwise.
	fenceTries = 5
	// fencePause is how long a fence that is undecided waits. The Date of an answer that is made
	// later within its second says more.
	fencePause = 300 * time.Millisecond
	// sharp is an estimate of the offset that another Date makes no better, in seconds.
	sharp = 0.25
	// timeTick is the least difference between two times of upstream's, in seconds.
	timeTick = 1e-6
	// mostLinger bounds how long upstream's confirmation of an entry stands for a fence where the
	// linger is long: as long, another host may write unseen.
	mostLinger = 250 * time.Millisecond
	// mostLately bounds the entries whose last writes are remembered.
	mostLately = 4096
)
