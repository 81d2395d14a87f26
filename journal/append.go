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
	return j.append(w, addition{})
}

// addition is what else a batch does that journals a write.
type addition struct {
	frees int64 // what it takes off the budget
	to    func(*pebble.Batch) error
}

func (j *Journal) append(w NewWrite, also addition) (Write, error) {
	a := &appending{NewWrite: w, also: also, err: ErrFailed}
	if j.line.join(a) {
		j.lead()
	}
	if a.err != nil {
		return Write{}, a.err
	}
	v := a.version
	return Write{
		ID: w.ID, Seq: v.seq, Op: w.Op, Value: w.Value, ListBytes: w.ListBytes, UpdatedAt: v.updatedAt,
		born: v.born, afterDelete: v.afterDelete,
	}, nil
}

// begin gives the writes of a group their places in the order and applies them in one
// batch, not yet synced. Those that are refused get their errors. The batch is nil when
// all are: then nobody has to wait for a sync. A condition may have been refused because
// of a write that is not durable yet, and its caller is going to answer on the strength
// of that; but it is one of this group then, as groups wait for each other.
func (j *Journal) begin(group []*appending) (*pebble.Batch, error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	batch := j.db.NewBatch()
	placed := false
	for _, a := range group {
		a.err = j.place(a, batch)
		placed = placed || a.err == nil
	}
	switch {
	case placed:
		return batch, j.apply(batch)
	case j.failed.Load():
		return nil, errors.Join(ErrFailed, batch.Close())
	}
	return nil, batch.Close()
}

// place puts a write into the batch, behind all that are there. An error leaves no
// trace of it but what its addition has put into the batch.
func (j *Journal) place(a *appending, batch *pebble.Batch) error {
	if err := j.faultIn(a.ID); err != nil {
		return err
	}
	n, v, replaced, err := j.admit(a.NewWrite, a.also.frees)
	if err != nil {
		return err
	}
	if a.also.to != nil {
		if err := a.also.to(batch); err != nil {
			return err
		}
	}
	key := pendingKey(a.ID, v.seq)
	record := seal(key, appendPending(make([]byte, 0, len(a.Value)+pendingFields), v, a.Value))
	v.sum = sealedSum(record)
	if err := batch.Set(key, record, nil); err != nil {
		return err
	}
	j.totals.seq = v.seq
	j.totals.add(a.ID, v)
	j.superseded += replaced
	j.mu.Lock()
	defer j.mu.Unlock()
	if n == nil {
		n = j.index.ensure(a.ID)
	}
	n.coming = append(n.coming, v)
	a.node, a.version = n, v
	return nil
}

// admit decides whether the write may be taken, and what it follows: n is the entry's
// node, nil if it has none, and replaced the size of the write that is superseded. Of the
// budget a write needs only the difference, but it is written to the disk in full.
func (j *Journal) admit(w NewWrite, frees int64) (n *node, v *version, replaced int64, err error) {
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
func (j *Journal) follow(latest *version, w NewWrite) (*version, error) {
	now := j.stamp()
	v := &version{
		op: w.Op, bytes: int32(len(w.Value)), listBytes: int32(w.ListBytes),
		updatedAt: now, since: now, born: now,
	}
	switch {
	case latest != nil:
		v.updatedAt = max(now, latest.updatedAt)
		v.since = latest.since
		v.born, v.afterDelete = latest.born, latest.afterDelete
		if latest.op == Delete {
			v.born, v.afterDelete = v.updatedAt, true
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

// publish makes durable writes visible.
func (j *Journal) publish(group []*appending) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, a := range group {
		if a.err == nil {
			j.show(a.node, a.version)
		}
	}
}

// show makes a write visible, unless a newer one already is.
func (j *Journal) show(n *node, v *version) {
	n.arrive(v)
	if v.removed {
		return
	}
	if v.seq < n.visible.seq {
		j.garbage = append(j.garbage, retired{n.id, *v})
		return
	}
	if n.visible.seq != 0 {
		j.garbage = append(j.garbage, retired{n.id, n.visible})
	}
	j.index.show(n, v)
	j.changed(Change{ID: n.id, Seq: v.seq, Written: true})
}
