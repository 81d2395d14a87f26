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
	return j.append(w, nil)
}

// append is Append with room for more in the same batch.
func (j *Journal) append(w NewWrite, also func(*pebble.Batch) error) (Write, error) {
	n, v, batch, err := j.begin(w, also)
	if errors.Is(err, ErrChanged) {
		// What it lost to may not be durable yet, and the caller is going to answer
		// on the strength of it.
		return Write{}, errors.Join(err, j.syncAll())
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
	}, nil
}

// begin gives the write its place in the order and applies it, not yet synced.
func (j *Journal) begin(w NewWrite, also func(*pebble.Batch) error) (*node, *version, *pebble.Batch, error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	if err := j.faultIn(w.ID); err != nil {
		return nil, nil, nil, err
	}
	v, err := j.admit(w)
	if err != nil {
		return nil, nil, nil, err
	}
	batch := j.db.NewBatch()
	if also != nil {
		if err := also(batch); err != nil {
			return nil, nil, nil, errors.Join(err, batch.Close())
		}
	}
	key := pendingKey(w.ID, v.seq)
	record := seal(key, appendPending(make([]byte, 0, len(w.Value)+48), v, w.Value))
	v.sum = sealedSum(record)
	if err := batch.Set(key, record, nil); err != nil {
		return nil, nil, nil, errors.Join(err, batch.Close())
	}
	j.totals.seq = v.seq
	j.totals.add(w.ID, v)
	j.mu.Lock()
	n := j.index.ensure(w.ID)
	n.coming = v
	j.mu.Unlock()
	return n, v, batch, j.apply(batch)
}

// admit decides whether the write may be taken, and what it follows.
func (j *Journal) admit(w NewWrite) (*version, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	latest := j.index.get(w.ID).latest()
	if w.If != nil && !w.If(seqOf(latest)) {
		return nil, ErrChanged
	}
	v := j.follow(latest, w)
	v.seq = j.totals.seq + 1
	need := v.size(w.ID)
	if latest != nil {
		need -= latest.size(w.ID)
	}
	for i := range j.garbage {
		need -= j.garbage[i].v.size(j.garbage[i].id)
	}
	if err := j.room(need); err != nil {
		return nil, err
	}
	return v, nil
}

func seqOf(v *version) uint64 {
	if v == nil {
		return 0
	}
	return v.seq
}

// follow is the version that w becomes after the entry's newest one.
func (j *Journal) follow(latest *version, w NewWrite) *version {
	now := j.stamp()
	v := &version{
		op: w.Op, bytes: int32(len(w.Value)), listBytes: int32(w.ListBytes),
		updatedAt: now, since: now, born: now,
	}
	if latest == nil {
		return v
	}
	v.updatedAt = max(now, latest.updatedAt)
	v.since = latest.since
	v.born, v.afterDelete = latest.born, latest.afterDelete
	if latest.op == Delete {
		v.born, v.afterDelete = v.updatedAt, true
	}
	return v
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
	if v.seq < n.visible.seq {
		j.garbage = append(j.garbage, retired{n.id, *v})
		return
	}
	if n.visible.seq != 0 {
		j.garbage = append(j.garbage, retired{n.id, n.visible})
	}
	j.index.show(n, v)
	if n.coming == v {
		n.coming = nil
	}
	j.changed(Change{ID: n.id, Seq: v.seq, Written: true})
}

// apply adds what every batch carries, the state record and the removal of
// superseded records, and applies it. The caller holds commitMu and, after it, has
// to wait.
func (j *Journal) apply(batch *pebble.Batch) error {
	return j.applyWithout(batch, j.takeGarbage())
}

// applyLocked is apply for a caller that holds mu too.
func (j *Journal) applyLocked(batch *pebble.Batch) error {
	garbage := j.garbage
	j.garbage = nil
	return j.applyWithout(batch, garbage)
}

func (j *Journal) applyWithout(batch *pebble.Batch, garbage []retired) error {
	if j.failed.Load() {
		return errors.Join(ErrFailed, batch.Close())
	}
	for _, old := range garbage {
		if err := batch.Delete(pendingKey(old.id, old.v.seq), nil); err != nil {
			return errors.Join(err, batch.Close())
		}
		j.totals.remove(old.id, &old.v)
	}
	if err := batch.Set(stateKey, seal(stateKey, appendTotals(nil, &j.totals)), nil); err != nil {
		return errors.Join(err, batch.Close())
	}
	if err := j.db.ApplyNoSyncWait(batch, pebble.Sync); err != nil {
		j.fail(err)
		return ErrFailed
	}
	return nil
}

func (j *Journal) takeGarbage() []retired {
	j.mu.Lock()
	defer j.mu.Unlock()
	garbage := j.garbage
	j.garbage = nil
	return garbage
}

// wait returns when an applied batch is durable. A batch that cannot be made durable
// is the end of the journal.
func (j *Journal) wait(batch *pebble.Batch) error {
	if err := batch.SyncWait(); err != nil {
		j.fail(err)
		return ErrFailed
	}
	if j.failed.Load() {
		return ErrFailed
	}
	return batch.Close()
}

// syncAll returns when everything applied so far is durable.
func (j *Journal) syncAll() error {
	if err := j.db.LogData(nil, pebble.Sync); err != nil {
		j.fail(err)
		return ErrFailed
	}
	if j.failed.Load() {
		return ErrFailed
	}
	return nil
}
