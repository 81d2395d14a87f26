package store

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
)

// applyGathered applies the gathering batch without a sync, so that the store matches the totals. The
// next sync makes the batch durable. The caller holds order.
func (p *pipeline) applyGathered() error {
	g := p.gathering
	if g == nil || g.batch == nil || g.batch.Empty() {
		return nil
	}
	err := p.apply(g, pebble.NoSync)
	g.batch = nil
	return err
}

// apply adds the state record to the gathering group's batch, and applies it. The caller holds order.
func (p *pipeline) apply(g *group, how *pebble.WriteOptions) error {
	p.totals.Batches++ // guard 4.28
	p.applied()
	if err := g.batch.Set(record.StateKey, record.EncodeTotals(&p.totals), nil); err != nil {
		p.fail(err)
		return ErrFailed
	}
	return p.applyBatch(g.batch, how)
}

// Totals returns the totals of the store, including changes that are not durable yet.
func (p *pipeline) Totals() (now record.Totals) {
	p.InOrder(func(t record.Totals) { now = t })
	return now
}

// InOrder calls look with the totals of the store between two updates. look sees each update completely
// or not at all. It must be quick.
func (p *pipeline) InOrder(look func(record.Totals)) {
	p.order.Lock()
	defer p.order.Unlock()
	look(p.totals)
}

// AwaitDurable waits until all earlier updates are durable. Errors: [ErrFailed].
func (p *pipeline) AwaitDurable() error {
	p.order.Lock()
	newest := p.newest()
	p.order.Unlock()
	if err := p.await(newest); err != nil || p.failed.Load() {
		return ErrFailed
	}
	return nil
}
