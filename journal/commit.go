package journal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// apply adds what every batch carries, the state record and the removal of superseded
// records, and applies it. Unless it is to be synced, it is closed then. The caller holds
// commitMu.
func (j *Journal) apply(batch *pebble.Batch, how *pebble.WriteOptions) error {
	j.mu.Lock()
	garbage := j.garbage
	j.garbage = nil
	j.mu.Unlock()
	return j.applyWithout(batch, garbage, how)
}

// applyLocked is apply, without a sync, for a caller that holds mu too.
func (j *Journal) applyLocked(batch *pebble.Batch) error {
	garbage := j.garbage
	j.garbage = nil
	return j.applyWithout(batch, garbage, pebble.NoSync)
}

func (j *Journal) applyWithout(batch *pebble.Batch, garbage []retired, how *pebble.WriteOptions) error {
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
	return j.hand(batch, how)
}

// hand gives a batch to Pebble, which applies it. One that is to be synced has to be
// waited for; else the next one that is makes it durable too. The caller holds commitMu.
func (j *Journal) hand(batch *pebble.Batch, how *pebble.WriteOptions) error {
	return j.guard(func() error {
		if how.Sync {
			return j.db.ApplyNoSyncWait(batch, how)
		}
		return errors.Join(j.db.Apply(batch, how), batch.Close())
	})
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

// wait returns when a batch that is being synced is durable. One that cannot be made
// durable is the end of the journal.
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
