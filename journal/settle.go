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
	batch, err := j.retire(w, func(batch *pebble.Batch, _ *version) error {
		return errors.Join(j.settleCopy(batch, w), j.settleRow(batch, w))
	})
	if err != nil {
		return fmt.Errorf("settling write %d to %s: %w", w.Seq, w.ID, err)
	}
	return j.wait(batch)
}

// Bury makes a write that upstream refused for good a dead letter, unless a newer
// one to the entry is waiting: then it was superseded. status and reason are
// upstream's. It is durable when Bury returns.
func (j *Journal) Bury(w Write, status int, reason string) error {
	batch, err := j.retire(w, func(batch *pebble.Batch, last *version) error {
		if last == nil {
			return nil
		}
		j.totals.dead++
		j.totals.deadBytes += last.size(w.ID)
		key := deadKey(w.Seq)
		return batch.Set(key, seal(key, appendDead(nil, w.ID, last, w.Value, status, reason, unixNow())), nil)
	})
	if err != nil {
		return fmt.Errorf("burying write %d to %s: %w", w.Seq, w.ID, err)
	}
	return j.wait(batch)
}

// retire ends an attempt at a write whose outcome is known. With it go the sent mark
// and, when no newer write is waiting, the pending record. fill adds what the
// outcome leaves behind; its version is nil when a newer write is waiting.
//
// The batch is applied under mu: a reader finds the entry pending before it and
// settled after it.
func (j *Journal) retire(w Write, fill func(*pebble.Batch, *version) error) (*pebble.Batch, error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	if err := j.faultIn(w.ID); err != nil {
		return nil, err
	}
	var last *version
	n := j.indexed(w.ID)
	if latest := n.latest(); latest != nil && latest.seq == w.Seq {
		last = latest
	}
	batch := j.db.NewBatch()
	err := errors.Join(fill(batch, last), batch.Delete(entryKey(sentPrefix, w.ID), nil))
	if last != nil {
		j.totals.remove(w.ID, last)
		err = errors.Join(err, batch.Delete(pendingKey(w.ID, last.seq), nil))
	}
	if err != nil {
		return nil, errors.Join(err, batch.Close())
	}
	return batch, j.applyRetired(batch, w, n, last != nil)
}

func (j *Journal) applyRetired(batch *pebble.Batch, w Write, n *node, last bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.applyLocked(batch); err != nil {
		return err
	}
	if last {
		j.index.drop(n)
	}
	j.changed(Change{ID: w.ID, Seq: w.Seq})
	return nil
}

func (j *Journal) indexed(id ID) *node {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.index.get(id)
}

// settleCopy replaces the entry's settled copy by a confirmed write. What upstream
// has as its times is not known: the write's own stand for them until it is asked.
func (j *Journal) settleCopy(batch *pebble.Batch, w Write) error {
	key := entryKey(settledPrefix, w.ID)
	if w.Op == Delete {
		return batch.Delete(key, nil)
	}
	o := Observation{Value: w.Value, ListBytes: w.ListBytes, CreatedAt: w.born, UpdatedAt: w.UpdatedAt}
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
// copy, and returns the entry's state. valid is asked, in the order of all writes,
// whether the answer still stands: false when the entry was written or settled since
// upstream was asked, and then the answer is dropped with [ErrChanged] (contract 8).
// It is durable when Fill returns, and not seen by readers before (contract 7).
//
// While the disk is nearly full, no copy is kept.
func (j *Journal) Fill(id ID, o *Observation, valid func() bool) (State, error) {
	batch, state, done, err := j.beginFill(id, o, valid)
	if err != nil || batch == nil {
		return state, err
	}
	err = j.wait(batch)
	done()
	return state, err
}

func (j *Journal) beginFill(id ID, o *Observation, valid func() bool) (*pebble.Batch, State, func(), error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	if !valid() {
		return nil, State{}, nil, ErrChanged
	}
	past, had, err := j.observation(id)
	if err != nil {
		return nil, State{}, nil, err
	}
	state, record, err := j.copyOf(o, past)
	if err != nil || (record == nil && !had) {
		return nil, state, nil, err
	}
	key := entryKey(settledPrefix, id)
	batch := j.db.NewBatch()
	if record != nil {
		err = batch.Set(key, seal(key, record), nil)
	} else {
		err = batch.Delete(key, nil)
	}
	if err != nil {
		return nil, State{}, nil, errors.Join(err, batch.Close())
	}
	done := j.hideWhileFilling(id)
	if err := j.apply(batch); err != nil {
		done()
		return nil, State{}, nil, err
	}
	return batch, state, done, nil
}

// copyOf is the state that an observation amounts to, and its record: nil for an
// absence, and while the disk is nearly full, when upstream can be asked again.
func (j *Journal) copyOf(o *Observation, past Observation) (State, []byte, error) {
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
func (j *Journal) hideWhileFilling(id ID) (done func()) {
	durable := make(chan struct{})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.filling[id] = durable
	j.changed(Change{ID: id})
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.filling[id] == durable {
			delete(j.filling, id)
		}
		close(durable)
	}
}

// MarkSent records, durably, that the entry's pending write may reach upstream from
// now on. After a crash such an entry is [Journal.InDoubt].
func (j *Journal) MarkSent(w Write) error {
	key := entryKey(sentPrefix, w.ID)
	if err := j.db.Set(key, seal(key, appendSeq(nil, w.Seq)), pebble.Sync); err != nil {
		j.fail(err)
		return ErrFailed
	}
	return nil
}

// Unmark takes a sent mark back: the attempt is known not to have reached upstream.
// That need not survive a crash, after which the entry is treated as in doubt.
func (j *Journal) Unmark(id ID) error {
	if err := j.db.Delete(entryKey(sentPrefix, id), pebble.NoSync); err != nil {
		j.fail(err)
		return ErrFailed
	}
	return nil
}

// InDoubt returns the entries of which upstream may hold, or yet apply, a write whose
// answer an earlier process did not see.
func (j *Journal) InDoubt() ([]ID, error) {
	var ids []ID
	err := scan(j.db, []byte(sentPrefix), func(key, _ []byte, _ uint32) error {
		id, err := parseEntryKey(sentPrefix, key)
		ids = append(ids, id)
		return err
	})
	return ids, err
}
