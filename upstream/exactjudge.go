package upstream

import (
	"cmp"
	"math"
	"slices"

	"github.com/botwired/botwired/journal"
)

// exactQuestion is what a fence has to decide where upstream has versions: whether a write may take
// the place of an entry's last version.
type exactQuestion struct {
	write  journal.Write
	host   string // whose write it is
	now    Version
	valued bool // now is known with its value
	fenced bool // else the write takes the place of whatever there is
	base   journal.Base
	own    []journal.Content // what this host's requests may have left there since the base
	// losesTies says that the write is from before this host was in doubt about itself.
	losesTies bool
	// oldBefore is the time, in Unix seconds, before which a version is old: if this host knew
	// nothing of the entry, to take its place is no conflict. Minus infinity if there is none.
	oldBefore float64
}

// judge decides. Of two versions the later one wins, and a version that the write was based on is
// earlier than it. It returns fenceUndecided if it depends on the version's value, which is not known.
func (q *exactQuestion) judge() outcome {
	switch end := q.ofOurs(); {
	case end != fenceLost:
		return end
	case !q.fenced:
		return fenceUnchanged
	}
	later := q.later()
	switch {
	case !later && !q.base.Known && q.now.WrittenAt < q.oldBefore:
		return fenceOld
	case !q.hasValue():
		return fenceUndecided
	case q.same() && later:
		return fenceHeld // to send it again would make it later than its writer's next one
	case q.same():
		return fenceSame
	case later:
		return fenceLost
	}
	return fenceWon
}

// ofOurs decides where no other host is concerned: the version is this host's, or the write was based
// on it. Else it returns fenceLost.
func (q *exactQuestion) ofOurs() outcome {
	switch {
	case q.now.Revision == 0:
		return fenceAbsent
	case q.named() && !q.hasValue():
		return fenceUndecided
	case q.named() && q.same() && micros(q.now.WrittenAt) >= micros(q.write.UpdatedAt):
		return fenceOwn
	case q.isBase() && (!q.write.LosesTies || !q.later()):
		return fenceUnchanged
	case !q.isOlder():
		return fenceLost
	case !q.base.Known:
		return fenceUnchanged // the copy of it has made room for others
	case !q.hasValue():
		return fenceUndecided
	case slices.Contains(q.own, q.content()):
		return fenceUnchanged
	}
	return fenceLost // a copy of this host's data directory has written it
}

// named reports whether the version says that it is this very write. A copied data directory says
// the same of another one.
func (q *exactQuestion) named() bool {
	return q.write.Seq != 0 && q.now.Writer == Writer{Host: q.host, Seq: q.write.Seq}
}

// isOlder reports whether the version says that it is an older write of this host's, or one that went
// through.
func (q *exactQuestion) isOlder() bool {
	return q.now.Writer.Host == q.host && (q.now.Writer.Seq < q.write.Seq || q.write.Seq == 0)
}

// isBase reports whether the version is the one that this host knew beneath the write. No two versions
// of an entry have the same time. A later one with the number of the base is by a copy of this host's
// data directory: this host's copy of its own version is never earlier than that.
func (q *exactQuestion) isBase() bool {
	b, at := q.base, micros(q.now.WrittenAt)
	switch {
	case !b.Known || b.Present == q.now.Deleted:
		return false
	case !b.Present:
		return !q.later() // another host's delete leaves what this host knew
	case b.Origin.Seq != 0 && q.now.Writer == Writer{Host: q.host, Seq: b.Origin.Seq}:
		return at <= micros(b.UpdatedAt)
	}
	return at == micros(b.UpdatedAt) || b.Origin.At != 0 && at == micros(b.Origin.At) // guard 17.32
}

// later reports whether the version is later than the write.
func (q *exactQuestion) later() bool {
	return cmp.Or(
		cmp.Compare(micros(q.now.WrittenAt), micros(q.writtenAt())),
		cmp.Compare(q.now.Writer.Host, q.host),
		cmp.Compare(q.now.Writer.Seq, q.write.Seq),
	) >= 0
}

// writtenAt is the time by which the write is compared. UpdatedAt is later than all that this host
// knew when it took the write in. A write that was made before goes by the time when it was made.
func (q *exactQuestion) writtenAt() float64 {
	if q.write.LosesTies || q.write.Fenced || q.losesTies {
		return min(q.write.UpdatedAt, q.write.WrittenAt)
	}
	return q.write.UpdatedAt
}

func (q *exactQuestion) hasValue() bool { return q.valued || q.now.Deleted }

func (q *exactQuestion) same() bool { return q.content() == contentOf(q.write) }

func (q *exactQuestion) content() journal.Content { return contentAt(q.now) }

// contentAt is the content of a version that is known with its value.
func contentAt(v Version) journal.Content {
	if !v.Present() {
		return journal.ContentOf(journal.Delete, "")
	}
	return journal.ContentOf(journal.Put, v.Value)
}

// micros is a time in Unix seconds as an engine keeps it.
func micros(seconds float64) int64 { return int64(math.Round(seconds * 1e6)) }
