package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

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
	for i := range garbage {
		old := &garbage[i]
		if err := batch.Delete(pendingKey(old.id, old.v.seq), nil); err != nil {
			return errors.Join(err, batch.Close())
		}
		j.totals.remove(old.id, &old.v)
		j.superseded -= old.v.size(old.id)
	}
	j.totals.batches++
	j.markSoon()
	if err := batch.Set(stateKey, seal(stateKey, appendTotals(nil, &j.totals)), nil); err != nil {
		return errors.Join(err, batch.Close())
	}
	return j.hand(batch)
}

func (j *Journal) takeGarbage() []retired {
	j.mu.Lock()
	defer j.mu.Unlock()
	garbage := j.garbage
	j.garbage = nil
	return garbage
}

// hand gives a batch to Pebble, which applies it and begins to sync it. The caller
// holds commitMu.
func (j *Journal) hand(batch *pebble.Batch) error {
	return j.guard(func() error { return j.db.ApplyNoSyncWait(batch, pebble.Sync) })
}

// guard makes every way in which Pebble refuses a write the end of the journal: an
// error, a Fatalf, and a panic. The caller holds commitMu, so nobody is in Pebble's
// commit behind it.
func (j *Journal) guard(write func() error) error {
	if j.failed.Load() {
		return ErrFailed
	}
	if err := j.catch(write); err != nil {
		j.fail(err)
	}
	if j.failed.Load() {
		return ErrFailed
	}
	return nil
}

// catch makes a panic of Pebble's the end of the journal: it is how Pebble answers a
// log that it cannot go on with. net/http would swallow it, and Pebble keeps its locks
// after it: all later writes would hang.
func (j *Journal) catch(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			j.wedged.Store(true)
			j.fail(fmt.Errorf("writing to the store: %v", p))
			err = ErrFailed
		}
	}()
	return call()
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
	batch := j.db.NewBatch()
	if err := batch.LogData(nil, nil); err != nil {
		return errors.Join(err, batch.Close())
	}
	j.commitMu.Lock()
	err := j.hand(batch)
	j.commitMu.Unlock()
	if err != nil {
		return err
	}
	return j.wait(batch)
}
