package journal

import (
	"math"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/queue"
)

// Append journals a write. When it returns nil the write is fsynced, visible to readers and ordered
// before every write to its entry that began later (contract 1, 5).
//
// The queue does that: see [queue.Queue.Append]. A delete needs the other room, too: it gets an updated_at no earlier than
// that of the settled copy which it follows, and the namespace's copies stay as they are until it has its place.
//
// Errors: [ErrFull], *[NamespaceFullError], [ErrChanged], [ErrFailed], [ErrClosed].
func (j *Journal) Append(w NewWrite) (Write, error) {
	if err := j.store.Acquire(); err != nil {
		return Write{}, err
	}
	defer j.store.Release()
	if err := j.queue.Ready(w.ID); err != nil {
		return Write{}, err
	}
	if w.Op != Delete {
		return j.queue.Append(w, queue.Following{})
	}
	unlock := j.entries.Lock(w.Namespace)
	defer unlock()
	copied, _, err := j.entries.Head(w.ID)
	if err != nil {
		return Write{}, err
	}
	return j.queue.Append(w, queue.Following{UpdatedAt: copied.UpdatedAt, Placed: unlock})
}

// AnyWrite lets [Journal.Retry] undo every write.
const AnyWrite = math.MaxUint64

// Retry makes a dead letter the newest write to its entry again, and removes the dead letter. It may
// undo writes with sequence numbers up to last. It returns [ErrNewer] if this host has made a write
// after last, or if the settled copy shows another host's state that is later than the dead letter. With
// [AnyWrite], it returns no [ErrNewer]. Unless last is [AnyWrite], the write keeps its original time and is
// Fenced, so that the fence finds later states that the journal does not know.
//
// Errors: [ErrNewer], [ErrNoDeadLetter] and those of [Journal.Append].
func (j *Journal) Retry(seq, last uint64) (Write, error) {
	if err := j.store.Acquire(); err != nil {
		return Write{}, err
	}
	defer j.store.Release()
	l, err := j.queue.Letters.Find(seq)
	if err != nil {
		return Write{}, err
	}
	if err := j.queue.Ready(l.ID); err != nil {
		return Write{}, err
	}
	unlock := j.entries.Lock(l.Namespace)
	defer unlock()
	if last != AnyWrite && l.SupersededBy > last { // guard 13.13
		return Write{}, ErrNewer
	}
	w := NewWrite{
		ID: l.ID, Op: l.Op, Value: l.Value, ListBytes: int(l.ListBytes), Author: l.Author,
		If: func(newest uint64) bool { return newest <= last }, // guard 13.11
	}
	if last != AnyWrite {
		w.WrittenAt, w.LosesTies, w.Fenced = l.WrittenAt, l.LosesTies, true // guard 17.10
	}
	settled, _, err := j.entries.Head(l.ID) // no write settles while the copies lock is held
	if err != nil {
		return Write{}, err
	}
	if last != AnyWrite && isNewer(&settled, &l, last) {
		return Write{}, ErrNewer
	}
	return j.queue.Retry(&l, w, queue.Following{UpdatedAt: settled.UpdatedAt, Placed: unlock})
}

// isNewer reports whether a settled copy shows a write after last. For another host's state, isNewer
// reports whether it is later than the dead letter.
func isNewer(settled *Observation, l *record.Dead, last uint64) bool {
	if settled.Origin.Seq != 0 {
		return settled.Origin.Seq > last // guard 13.12
	}
	return settled.UpdatedAt > l.UpdatedAt // guard 13.16
}
