package flush

import (
	"context"
	"log/slog"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/schedule"
)

// claim begins an attempt that sends nothing, so that a person can decide about the write. While a
// request of the entry is in flight, claim waits for it to end (contract 12). Errors:
// [journal.ErrNotPending] and ctx's.
func (f *Flusher) claim(ctx context.Context, id journal.ID) (*attempt, error) {
	if err := f.rebuilt(ctx); err != nil {
		return nil, err
	}
	for {
		a, busy := f.tryClaim(id)
		switch {
		case a != nil:
			return a, nil
		case busy == nil:
			return nil, journal.ErrNotPending
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryClaim returns the attempt. If a request is in flight, it returns a channel that closes when that
// ends; if nothing is pending, neither.
func (f *Flusher) tryClaim(id journal.ID) (a *attempt, busy <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	claimed, busy := f.schedule.Claim(id, f.now())
	if claimed == nil {
		return nil, busy
	}
	return &attempt{Attempt: claimed, f: f}, nil
}

// Drop makes an entry's pending write a dead letter. If seq is not 0, it drops only the write with that
// number. While a request of the entry is in flight, Drop waits until it ends or ctx does.
//
// Errors: [journal.ErrNotPending], ctx's, and those of a failed journal.
func (f *Flusher) Drop(ctx context.Context, id journal.ID, seq uint64) (dropped journal.Write, err error) {
	a, err := f.claim(ctx, id)
	if err != nil {
		return journal.Write{}, err
	}
	defer f.signal()
	w, ok, err := f.opts.Journal.Newest(id)
	if err == nil && (!ok || seq != 0 && w.Seq != seq) {
		err = journal.ErrNotPending
	}
	if err == nil {
		err = f.opts.Journal.DeadLetter(w, journal.Failure{
			Kind: journal.Dropped, Reason: "dropped by hand",
		})
	}
	var e ending
	if err == nil {
		e, err = a.dies(e, w, slog.LevelWarn, "a pending write was dropped by hand: it is a dead letter now")
	}
	if err != nil {
		a.end(ending{})
		return journal.Write{}, err
	}
	if a.end(e); e.fate == schedule.StartsOver {
		return journal.Write{}, journal.ErrNotPending // a newer write has replaced it
	}
	return w, nil
}
