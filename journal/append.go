package journal

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// ErrChanged says that the condition of an [Journal.Append] no longer held: the
// entry was written in between. Look again and decide anew.
var ErrChanged = errors.New("entry changed meanwhile")

// NewWrite is a write to be journaled.
type NewWrite struct {
	ID
	Op        Op
	Value     string
	ListBytes int
	// If, when not nil, is asked with the sequence number of the entry's newest
	// pending write (0 if there is none) whether to go on, in the order of all
	// writes. A false is [ErrChanged]. It must be quick and must not call the
	// journal.
	If func(newest uint64) bool
}

// Append journals a write. When it returns nil the write is fsynced, visible to
// readers and ahead of every write to its entry that began later (contract 1, 5).
//
// Errors: [ErrFull], [ErrChanged], [ErrFailed].
func (j *Journal) Append(w NewWrite) (Write, error) {
	if err := j.enter(); err != nil {
		return Write{}, err
	}
	defer j.leave()
	v, t, err := j.enlist(&w)
	if err := j.outcome(t, err); err != nil {
		return Write{}, err
	}
	return v.write(w.ID, w.Value), nil
}

// enlist gives a write its place in the order, and the ticket of the group that it is
// in. A condition may have been refused because of a write that is not durable yet, and
// its caller is going to answer on the strength of that: it has a ticket too.
func (j *Journal) enlist(w *NewWrite) (v *version, t ticket, err error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	defer j.survive(&err)
	if j.failed.Load() {
		return nil, ticket{}, ErrFailed // a condition may not hold because of a write that was lost
	}
	batch := j.gathered()
	a, err := j.place(batch, w, 0)
	if errors.Is(err, ErrChanged) {
		return nil, j.newest(), err
	}
	if err != nil {
		return nil, ticket{}, err
	}
	if batch.Len() > groupBytes {
		if err := j.applyGathered(); err != nil {
			return nil, ticket{}, err
		}
	}
	return a.version, j.join(a), nil
}

// place puts a write into a batch, behind all that are there; frees is what else the
// batch takes off the budget. A write that is refused leaves no trace. The caller holds
// commitMu.
func (j *Journal) place(batch *pebble.Batch, w *NewWrite, frees int64) (arrival, error) {
	if err := j.faultIn(w.ID); err != nil {
		return arrival{}, err
	}
	n, v, replaced, err := j.admit(w, frees)
	if err != nil {
		return arrival{}, err
	}
	if err := setPending(batch, w.ID, v, w.Value); err != nil {
		return arrival{}, err
	}
	j.totals.seq = v.seq
	j.totals.add(w.ID, v)
	j.superseded += replaced
	j.mu.Lock()
	defer j.mu.Unlock()
	if n == nil {
		n = j.index.ensure(w.ID)
	}
	n.coming = append(n.coming, v)
	return arrival{n, v}, nil
}

// admit decides whether the write may be taken, and what it follows: n is the entry's
// node, nil if it has none, and replaced the size of the write that is superseded. Of the
// budget a write needs only the difference, but it is written to the disk in full.
func (j *Journal) admit(w *NewWrite, frees int64) (n *node, v *version, replaced int64, err error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	n = j.index.get(w.ID)
	latest := n.latest()
	if w.If != nil && !w.If(seqOf(latest)) {
		return nil, nil, 0, ErrChanged
	}
	if v, err = j.follow(latest, w); err != nil {
		return nil, nil, 0, err
	}
	v.seq = j.totals.seq + 1
	if latest != nil {
		replaced = latest.size(w.ID)
	}
	size := v.size(w.ID)
	return n, v, replaced, j.room(size-replaced-frees, size)
}

func seqOf(v *version) uint64 {
	if v == nil {
		return 0
	}
	return v.seq
}

// follow is the version that w becomes after the entry's newest one.
func (j *Journal) follow(latest *version, w *NewWrite) (*version, error) {
	now := j.stamp()
	v := &version{
		op: w.Op, bytes: int32(len(w.Value)), listBytes: int32(w.ListBytes),
		updatedAt: now, since: now, createdAt: now,
	}
	switch {
	case latest != nil:
		v.updatedAt = max(now, latest.updatedAt)
		v.since = latest.since
		v.createdAt, v.afterDelete = latest.createdAt, latest.afterDelete
		if latest.op == Delete {
			v.createdAt, v.afterDelete = v.updatedAt, true
		}
	case w.Op == Delete:
		// What is put after it no longer looks at the settled copy, and must not be
		// older all the same (contract 19).
		settled, _, err := j.observation(w.ID)
		if err != nil {
			return nil, err
		}
		v.updatedAt = max(now, settled.UpdatedAt)
	}
	return v, nil
}

// tick is the least difference between two times, in seconds: BotWire's clock has
// microseconds.
const tick = 1e-6

// stamp is the time of the next write: the wall clock, moved on by a tick if need be,
// so that of two writes the later one is the newer in a listing. The caller holds
// commitMu.
func (j *Journal) stamp() float64 {
	const slack = 1 // seconds; a clock set back by more is followed
	now := unixNow()
	if now <= j.lastStamp && j.lastStamp-now < slack {
		now = j.lastStamp + tick
	}
	j.lastStamp = now
	return now
}

// publish makes durable writes visible, in their order.
func (j *Journal) publish(writes []arrival) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, a := range writes {
		j.show(a.node, a.version)
	}
}

// show makes the first of an entry's coming writes visible. The caller holds mu.
func (j *Journal) show(n *node, v *version) {
	n.arrive()
	if n.visible.seq != 0 {
		j.garbage = append(j.garbage, retired{n.id, n.visible})
	}
	j.index.show(n, v)
	j.changed(Change{ID: n.id, Seq: v.seq, Written: true})
}
