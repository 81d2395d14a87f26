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
// A batch is applied in the order of sequence numbers under commitMu, and its fsync
// is waited for outside: Pebble syncs its log once for all that wait.
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
	n, v, batch, err := j.begin(w, also)
	if errors.Is(err, ErrChanged) {
		// What it lost to may not be durable yet, and the caller is going to answer
		// on the strength of it.
		if err := j.syncAll(); err != nil {
			return Write{}, err
		}
	}
	if err != nil {
		return Write{}, err
	}
	if err := j.wait(batch); err != nil {
		return Write{}, err
	}
	j.publish(n, v)
	return Write{
		ID: w.ID, Seq: v.seq, Op: w.Op, Value: w.Value, ListBytes: w.ListBytes, UpdatedAt: v.updatedAt,
		born: v.born, afterDelete: v.afterDelete,
	}, nil
}

// begin gives the write its place in the order and applies it, not yet synced.
func (j *Journal) begin(w NewWrite, also addition) (*node, *version, *pebble.Batch, error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	if err := j.faultIn(w.ID); err != nil {
		return nil, nil, nil, err
	}
	v, replaced, err := j.admit(w, also.frees)
	if err != nil {
		return nil, nil, nil, err
	}
	batch := j.db.NewBatch()
	if also.to != nil {
		if err := also.to(batch); err != nil {
			return nil, nil, nil, errors.Join(err, batch.Close())
		}
	}
	key := pendingKey(w.ID, v.seq)
	record := seal(key, appendPending(make([]byte, 0, len(w.Value)+pendingFields), v, w.Value))
	v.sum = sealedSum(record)
	if err := batch.Set(key, record, nil); err != nil {
		return nil, nil, nil, errors.Join(err, batch.Close())
	}
	j.totals.seq = v.seq
	j.totals.add(w.ID, v)
	j.superseded += replaced
	n, garbage := j.expect(w.ID, v)
	return n, v, batch, j.applyWithout(batch, garbage)
}

// expect notes that v is coming, and takes the garbage for the batch that v is in.
func (j *Journal) expect(id ID, v *version) (*node, []retired) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.index.ensure(id)
	n.coming = append(n.coming, v)
	garbage := j.garbage
	j.garbage = nil
	return n, garbage
}

// admit decides whether the write may be taken, and what it follows: replaced is the
// size of the write that it supersedes. Of the budget it needs only the difference,
// but it is written to the disk in full.
func (j *Journal) admit(w NewWrite, frees int64) (v *version, replaced int64, err error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	latest := j.index.get(w.ID).latest()
	if w.If != nil && !w.If(seqOf(latest)) {
		return nil, 0, ErrChanged
	}
	if v, err = j.follow(latest, w); err != nil {
		return nil, 0, err
	}
	v.seq = j.totals.seq + 1
	if latest != nil {
		replaced = latest.size(w.ID)
	}
	size := v.size(w.ID)
	return v, replaced, j.room(size-replaced-frees, size)
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

// stamp is the time of the next write: the wall clock, moved on by a tick if need be,
// so that of two writes the later one is the newer in a listing. The caller holds
// commitMu.
func (j *Journal) stamp() float64 {
	const tick, slack = 1e-6, 1 // seconds; a clock set back by more than slack is followed
	now := unixNow()
	if now <= j.lastStamp && j.lastStamp-now < slack {
		now = j.lastStamp + tick
	}
	j.lastStamp = now
	return now
}

// publish makes a durable write visible, unless a newer one already is.
func (j *Journal) publish(n *node, v *version) {
	j.mu.Lock()
	defer j.mu.Unlock()
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
