package memory

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/internal/metrics"
	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/journal"
)

const (
	// changesAtOnce bounds the fetches in flight for entries that another host has changed. It leaves slots
	// for callers' reads even while a watch catches up.
	changesAtOnce = 4
	// changesKept bounds the queue. An entry that does not fit is fetched by its next read.
	changesKept = 10_000
)

// changeQueue holds the entries that other hosts have changed, as the watch reports. It fetches those with a
// local copy or in a prefetched namespace, so that their readers need not wait.
type changeQueue struct {
	m          *Memory
	prefetches func(namespace string) bool
	metrics    *metrics.Metrics

	ids chan journal.ID

	mu     sync.Mutex // guards queued
	queued map[journal.ID]struct{}

	overflowed atomic.Int64 // when the queue last had no room, in Unix nanoseconds
}

func newChangeQueue(m *Memory, prefetches func(namespace string) bool, counters *metrics.Metrics) *changeQueue {
	n := &changeQueue{m: m, prefetches: prefetches, metrics: counters, queued: make(map[journal.ID]struct{})}
	if m.view.upstream != nil { // without a view, nobody adds entries
		n.ids = make(chan journal.ID, changesKept)
	}
	return n
}

// add queues an entry, unless it is already queued or the queue is full.
func (n *changeQueue) add(id journal.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.queued[id]; ok {
		return
	}
	select {
	case n.ids <- id:
		n.queued[id] = struct{}{}
	default:
		n.overflowed.Store(time.Now().UnixNano())
	}
}

// next waits for an entry and takes it out of the queue. Its error is ctx's.
func (n *changeQueue) next(ctx context.Context) (id journal.ID, err error) {
	select {
	case id = <-n.ids:
	case <-ctx.Done():
		return id, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.queued, id)
	return id, nil
}

func (n *changeQueue) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range changesAtOnce {
		g.Go(func() error { return n.work(ctx) })
	}
	return g.Wait()
}

func (n *changeQueue) work(ctx context.Context) error {
	for {
		id, err := n.next(ctx)
		if err != nil {
			return err
		}
		err = tasks.Recovered(n.m.fetches.logger, func() error { return n.follow(ctx, id) })
		switch {
		case err == nil || ctx.Err() != nil:
		case isOutage(err):
			n.add(id)
			wait, _ := RetryAfter(err)
			if err := tasks.Sleep(ctx, min(max(retryLeast, wait), retryMost)); err != nil {
				return err
			}
		case !isNoAnswer(err) && !errors.Is(err, tasks.ErrPanicked): // a panic has been logged
			n.m.fetches.logger.Error("fetching an entry that another host has changed", "error", err)
		}
	}
}

// follow drops the local copy of an entry that is deleted in the view. Otherwise it fetches the entry
// if the copy is outdated, or if there is none and the namespace is prefetched. It leaves a pending
// write to the fence, and does nothing in a namespace with data loss.
func (n *changeQueue) follow(ctx context.Context, id journal.ID) error {
	if n.m.view.hasDataLoss(id.Namespace) {
		return nil
	}
	k, err := n.m.lookInJournal(id, AnyAge) // which drops the copy
	if err != nil || k.state.Seq != 0 {
		return err
	}
	row, held, _ := n.m.view.upstream.Entry(id)
	hasCopy := k.state.Kind == journal.Settled
	switch version, kept := micros(row.UpdatedAt), micros(k.state.UpdatedAt); {
	case !hasCopy && (!held || !n.prefetches(id.Namespace)):
		return nil
	case hasCopy && kept > version && version != 0:
		return nil
	case hasCopy && kept == version && k.state.WrittenAs == row.Origin.Seq:
		return nil // under another writer it is another write of the same microsecond
	}
	n.metrics.WatchFetches.Inc()
	return n.m.fetchEntry(ctx, id, k)
}
