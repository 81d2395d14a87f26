package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Settle records that upstream has confirmed a write: it becomes the entry's settled
// copy (for a delete: the copy goes), and leaves the pending set unless a newer
// write to the entry is waiting. It is durable when Settle returns.
func (j *Journal) Settle(w Write) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	t, _, err := j.retire(w, false, func(batch *pebble.Batch, _ *version) error {
		if err := j.settleCopy(batch, w); err != nil {
			return err
		}
		return j.bringRow(batch, w.Namespace, settledRow{
			row: Row{w.Key, w.ListBytes, w.UpdatedAt}, gone: w.Op == Delete, arrived: true,
		})
	})
	if err != nil {
		return fmt.Errorf("settling write %d to %s: %w", w.Seq, w.ID, err)
	}
	return j.await(t)
}

// Failure is why upstream will never take a write.
type Failure struct {
	Status int    // upstream's HTTP status; 0 when it has none
	Reason string // for people; never holds a value
	// InDoubt says that upstream may hold an older write to the entry that never
	// settled.
	InDoubt bool
}

// DeadLetter makes a write that upstream refused for good a dead letter, unless a
// newer write to the entry is pending: then it was superseded. It is durable when
// DeadLetter returns.
//
// Until then, readers of the entry wait: no answer may show them an older state that
// a power cut could take back (contract 7). With Failure.InDoubt readers have been
// answered with the older write, so the settled copy from before it is removed, and
// its row. When a newer write is pending, the entry stays [Journal.InDoubt].
func (j *Journal) DeadLetter(w Write, why Failure) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	t, reveal, err := j.retire(w, true, func(batch *pebble.Batch, last *version) error {
		if why.InDoubt {
			if err := j.forget(batch, w.ID, w.Seq, last != nil); err != nil {
				return err
			}
		}
		if last == nil {
			return nil
		}
		key := deadKey(w.Seq)
		record := seal(key, appendDead(nil, w.ID, last, w.Value, why.Status, why.Reason, unixNow()))
		if err := batch.Set(key, record, nil); err != nil {
			return err
		}
		j.totals.dead++
		j.totals.deadBytes += last.size(w.ID)
		return nil
	})
	if err != nil {
		return fmt.Errorf("dead-lettering write %d to %s: %w", w.Seq, w.ID, err)
	}
	defer reveal()
	return j.await(t)
}

// forget drops what settled of an entry of which upstream may hold something newer.
// While a newer write is waiting, nobody reads it, and the mark of the doubt is kept for
// that write's sake.
func (j *Journal) forget(batch *pebble.Batch, id ID, seq uint64, last bool) error {
	if !last {
		return setSent(batch, id, seq)
	}
	return errors.Join(batch.Delete(entryKey(settledPrefix, id), nil), j.forgetRow(batch, id))
}

// retire ends an attempt at a write whose outcome is known. With it go the sent mark
// and, when no newer write is waiting, the pending record. fill adds what the
// outcome leaves behind; its version is nil when a newer write is waiting.
//
// The batch is applied under mu: a reader finds the entry pending before it and
// settled after it. With hide, readers wait until the returned function is called.
func (j *Journal) retire(
	w Write, hide bool, fill func(*pebble.Batch, *version) error,
) (t ticket, reveal func(), err error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	if err := j.faultIn(w.ID); err != nil {
		return ticket{}, nil, err
	}
	batch, err := j.newBatch()
	if err != nil {
		return ticket{}, nil, err
	}
	n, last := j.ending(w)
	err = batch.Delete(entryKey(sentPrefix, w.ID), nil)
	if err == nil && last != nil {
		err = batch.Delete(pendingKey(w.ID, last.seq), nil)
	}
	if err == nil {
		err = fill(batch, last)
	}
	if err != nil {
		return ticket{}, nil, errors.Join(err, batch.Close())
	}
	// Nothing fails between here and the batch: the totals must not run ahead of it.
	if last != nil {
		j.totals.remove(w.ID, last)
	}
	if reveal, err = j.applyRetired(batch, w, n, last != nil, hide); err != nil {
		return ticket{}, nil, err
	}
	return j.join(), reveal, nil
}

func (j *Journal) applyRetired(batch *pebble.Batch, w Write, n *node, last, hide bool) (reveal func(), err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.applyLocked(batch); err != nil {
		return nil, err
	}
	switch {
	case last:
		j.index.drop(n)
	case n != nil:
		j.index.waitsSince(n, w.UpdatedAt)
	}
	if hide {
		reveal = j.hide(w.ID, ID{Namespace: w.Namespace})
	}
	j.changed(Change{ID: w.ID, Seq: w.Seq})
	return reveal, nil
}

// ending returns the entry's node, and w's version if no newer write is waiting. The
// caller holds commitMu, so that none can come.
func (j *Journal) ending(w Write) (*node, *version) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	n := j.index.get(w.ID)
	latest := n.latest()
	if latest == nil || latest.seq != w.Seq {
		return n, nil
	}
	v := *latest
	return n, &v
}

// settleCopy replaces the entry's settled copy by a confirmed write. What upstream
// has as its times is not known: the write's own stand for them until it is asked.
func (j *Journal) settleCopy(batch *pebble.Batch, w Write) error {
	key := entryKey(settledPrefix, w.ID)
	low, err := j.disk.low(int64(len(w.Value)))
	if w.Op == Delete || low || err != nil { // a copy is kept only where there surely is room
		return batch.Delete(key, nil)
	}
	o := Observation{Value: w.Value, ListBytes: w.ListBytes, CreatedAt: w.createdAt, UpdatedAt: w.UpdatedAt}
	past, ok, err := j.observation(w.ID)
	if err != nil {
		return err
	}
	if ok && !w.afterDelete {
		o.CreatedAt = past.CreatedAt
	}
	if ok {
		o.UpdatedAt = max(o.UpdatedAt, past.UpdatedAt)
	}
	return batch.Set(key, seal(key, appendSettled(nil, o, unixNow())), nil)
}

// Fill records what upstream answered for an entry, nil for absent, as its settled
// copy and in the namespace's listing, and returns the entry's state. valid is asked, in the order of all writes,
// whether the answer still stands: false when the entry was written or settled since
// upstream was asked, and then the answer is dropped with [ErrChanged] (contract 8).
// It is durable when Fill returns, and not seen by readers before (contract 7).
//
// While the disk is nearly full, no copy is kept.
func (j *Journal) Fill(id ID, o *Observation, valid func() bool) (State, error) {
	if err := j.enter(); err != nil {
		return State{}, err
	}
	defer j.leave()
	t, state, done, err := j.beginFill(id, o, valid)
	if err != nil {
		return state, err
	}
	defer done()
	return state, j.await(t)
}

func (j *Journal) beginFill(id ID, o *Observation, valid func() bool) (t ticket, state State, done func(), err error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	if j.failed.Load() {
		return t, state, nil, ErrFailed
	}
	if !valid() {
		return t, state, nil, ErrChanged
	}
	past, err := j.copyOf(id)
	if err != nil {
		return t, state, nil, err
	}
	state, record, err := j.copyToKeep(o, past.Observation)
	if err != nil {
		return t, State{}, nil, err
	}
	batch, err := j.newBatch()
	if err != nil {
		return t, State{}, nil, err
	}
	key := entryKey(settledPrefix, id)
	switch {
	case record != nil:
		err = batch.Set(key, seal(key, record), nil)
	case past.kept:
		err = batch.Delete(key, nil)
	}
	row := Row{Key: id.Key, ListBytes: state.ListBytes, UpdatedAt: state.UpdatedAt}
	err = errors.Join(err, j.bringRow(batch, id.Namespace, settledRow{row: row, gone: o == nil}))
	if err != nil {
		return t, State{}, nil, errors.Join(err, batch.Close())
	}
	if batch.Empty() {
		// Nothing of it is kept, but what was answered before it is old all the same.
		j.mu.Lock()
		j.changed(Change{ID: id})
		j.mu.Unlock()
		return j.newest(), state, func() {}, batch.Close()
	}
	done = j.hideWhileFilling(id, ID{Namespace: id.Namespace})
	if err := j.apply(batch, pebble.NoSync); err != nil {
		done()
		return t, State{}, nil, err
	}
	return j.join(), state, done, nil
}

// copyToKeep is the state that an observation amounts to, and its record: nil for an
// absence, and while the disk is nearly full, when upstream can be asked again.
func (j *Journal) copyToKeep(o *Observation, past Observation) (State, []byte, error) {
	if o == nil {
		return State{}, nil, nil
	}
	now := *o
	now.UpdatedAt = max(now.UpdatedAt, past.UpdatedAt)
	confirmedAt := unixNow()
	record := appendSettled(nil, now, confirmedAt)
	low, err := j.disk.low(int64(len(record)))
	if err != nil {
		return State{}, nil, err
	}
	if low {
		record = nil
	}
	return settledState(now, confirmedAt), record, nil
}

// hideWhileFilling makes readers of a settled copy wait until the returned function
// is called.
func (j *Journal) hideWhileFilling(ids ...ID) (done func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		j.changed(Change{ID: id})
	}
	return j.hide(ids...)
}

// hide is hideWhileFilling for a caller that holds mu, and tells nobody.
func (j *Journal) hide(ids ...ID) (reveal func()) {
	durable := make(chan struct{})
	for _, id := range ids {
		j.filling[id] = durable
	}
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, id := range ids {
			if j.filling[id] == durable {
				delete(j.filling, id)
			}
		}
		close(durable)
	}
}

// MarkSent records, durably, that the entry's pending write may reach upstream from
// now on. After a crash such an entry is [Journal.InDoubt]. It is [ErrFull], and the
// write is not to be sent yet, while the disk may not bear the record of its outcome.
func (j *Journal) MarkSent(w Write) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	if err := j.mayFlush(); err != nil {
		return err
	}
	return j.change(func(batch *pebble.Batch) error { return setSent(batch, w.ID, w.Seq) })
}

func setSent(batch *pebble.Batch, id ID, seq uint64) error {
	key := entryKey(sentPrefix, id)
	return batch.Set(key, seal(key, appendSeq(nil, seq)), nil)
}

// UnmarkSent takes a sent mark back: the attempt is known not to have reached upstream.
// That need not survive a crash, after which the entry is treated as in doubt.
func (j *Journal) UnmarkSent(id ID) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	return j.guard(func() error { return j.db.Delete(entryKey(sentPrefix, id), pebble.NoSync) })
}

// InDoubt returns the entries of which upstream may hold, or yet apply, a write whose
// answer an earlier process did not see.
func (j *Journal) InDoubt() ([]ID, error) {
	if err := j.enter(); err != nil {
		return nil, err
	}
	defer j.leave()
	var ids []ID
	err := scan(j.db, []byte(sentPrefix), func(key, _ []byte, _ uint32) error {
		id, err := parseEntryKey(sentPrefix, key)
		ids = append(ids, id)
		return err
	})
	return ids, err
}
