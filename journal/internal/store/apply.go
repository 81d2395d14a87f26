package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// applyGathered applies the gathering batch, unsynced, so that the store is what the
// totals say. The next sync makes it durable. The caller holds order.
func (s *Store) applyGathered() error {
	g := s.gathering
	if g == nil || g.batch == nil || g.batch.Empty() {
		return nil
	}
	err := s.apply(g, pebble.NoSync)
	g.batch = nil
	return err
}

// apply adds to a group's batch what every batch carries, and hands it to Pebble. The
// caller holds order, and the group is the gathering one.
func (s *Store) apply(g *group, how *pebble.WriteOptions) error {
	if s.opts.BeforeApply != nil {
		tx := Tx{s: s} // the present one may be being filled
		s.opts.BeforeApply(&tx)
		if tx.err != nil {
			s.fail(tx.err)
			return ErrFailed
		}
	}
	s.totals.Batches++
	s.markSoon()
	if err := g.batch.Set(record.StateKey, record.EncodeTotals(&s.totals), nil); err != nil {
		s.fail(err)
		return ErrFailed
	}
	return s.hand(g.batch, how)
}

// hand gives a batch to Pebble, which applies it. A synced one has to be waited for and
// closed; any other is closed here, and the next sync makes it durable too. The caller
// holds order.
func (s *Store) hand(batch *pebble.Batch, how *pebble.WriteOptions) error {
	return s.guard(func() error {
		if how.Sync {
			return s.db.ApplyNoSyncWait(batch, how)
		}
		return errors.Join(s.db.Apply(batch, how), batch.Close())
	})
}

// guard makes every way in which Pebble refuses a write the end of the journal: an
// error, a Fatalf, and a panic. The caller holds order, so nobody is in Pebble's commit
// behind it.
func (s *Store) guard(write func() error) error {
	if s.failed.Load() {
		return ErrFailed
	}
	if err := s.catch(write); err != nil {
		s.fail(err)
	}
	if s.failed.Load() {
		return ErrFailed
	}
	return nil
}

// catch makes a panic of Pebble's the end of the journal: Pebble answers so when it
// cannot go on with a log. net/http would swallow it, and Pebble keeps its locks after
// it: all later writes would hang.
func (s *Store) catch(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.wedged.Store(true)
			s.fail(fmt.Errorf("writing to the store: %v", p))
			err = ErrFailed
		}
	}()
	return call()
}

// wait returns when a batch that is being synced is durable. Its failure is the end of
// the journal.
func (s *Store) wait(batch *pebble.Batch) error {
	if err := batch.SyncWait(); err != nil {
		s.fail(err)
		return ErrFailed
	}
	if s.failed.Load() {
		return ErrFailed
	}
	return batch.Close()
}
