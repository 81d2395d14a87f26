package journal

import (
	"context"

	"github.com/botwired/botwired/journal/internal/store"
)

// Run rebuilds the pending index, and adds up the listings. Until it has finished, the journal looks up each
// requested entry in the store.
//
// Errors: ctx's, [ErrCorrupt], and those of the file system.
func (j *Journal) Run(ctx context.Context) error {
	err := j.store.Use(func() error { return j.rebuild(ctx) })
	if err == nil {
		err = j.store.Use(func() error { return j.entries.SumListings(ctx) })
	}
	if err != nil {
		return refusedStart(j.opts.Dir, err)
	}
	return nil
}

func (j *Journal) rebuild(ctx context.Context) error {
	err := j.queue.Rebuild(ctx)
	if err == nil {
		err = j.queue.Letters.MarkSettled(ctx, j.entries.SettledBy)
	}
	if err != nil {
		return store.Classify(err)
	}
	j.queue.Complete()
	return nil
}
