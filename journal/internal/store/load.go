package store

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// loadBytes bounds one batch of a [Load], in bytes.
const loadBytes = 1 << 20

// Load fills a store with existing records, bypassing the order of updates. Nothing else uses the store
// meanwhile, and the store is not complete before Finish.
type Load struct {
	s     *Store
	batch *pebble.Batch
}

// Load begins to fill the store.
func (s *Store) Load() *Load { return &Load{s: s, batch: s.db.NewBatch()} }

// Set adds a sealed record. Errors: [ErrFailed], after Options.Fatal was called.
func (l *Load) Set(key, sealed []byte) error {
	if err := l.batch.Set(key, sealed, nil); err != nil {
		return err
	}
	if l.batch.Len() < loadBytes {
		return nil
	}
	l.s.order.Lock()
	defer l.s.order.Unlock()
	return l.commit()
}

// commit makes the batch durable. The caller holds order.
func (l *Load) commit() error {
	batch := l.batch
	l.batch = l.s.db.NewBatch()
	return l.s.mustWrite(func() error { return errors.Join(batch.Commit(pebble.Sync), batch.Close()) })
}

// Finish makes everything durable, and sets the store's totals.
func (l *Load) Finish(t record.Totals) error {
	l.s.order.Lock()
	defer l.s.order.Unlock()
	t.Batches++
	l.s.totals = t
	l.s.marker.soon()
	if err := l.batch.Set(record.StateKey, record.EncodeTotals(&t), nil); err != nil {
		return err
	}
	return l.commit()
}
