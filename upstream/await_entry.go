package upstream

import (
	"context"

	"github.com/botwired/botwired/journal"
)

// Await hurries an entry's pending write and returns when the write of that sequence
// number, or a newer one to the entry, has settled. It is false when ctx ends first, or
// when the write is a dead letter.
func (f *Flusher) Await(ctx context.Context, id journal.ID, seq uint64) (settled bool) {
	w, waiting := f.expectWrite(id, seq)
	if !waiting {
		return !f.isDead(id, seq)
	}
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiters, w)
	return w.progress.Settled > 0
}

// expectWrite hurries an entry and waits for one of its writes; false if the entry has
// nothing pending any more.
func (f *Flusher) expectWrite(id journal.ID, seq uint64) (*waiter, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.schedule.find(id)
	if t == nil {
		return nil, false
	}
	w := &waiter{outstanding: map[journal.ID]uint64{id: seq}, done: make(chan struct{})}
	f.waiters[w] = struct{}{}
	t.hurry = true
	if !t.running {
		f.wait(t)
	}
	return w, true
}

// isDead reports whether a write that is not pending any more was refused. It is asked
// when a write went upstream before its caller began to wait: hardly ever.
func (f *Flusher) isDead(id journal.ID, seq uint64) bool {
	dead, err := f.opts.Journal.IsDead(id, seq)
	return dead || err != nil // not known to have settled
}
