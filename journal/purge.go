package journal

import (
	"context"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/recovery"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
)

// Purge removes what the journal keeps of an entry, or of a namespace if the key is empty: copies, rows, versions, dead
// letters, receipts and the names of requests. Puts after the one with the number upTo stay, with their receipts, and so do the
// names of all later requests. Later deletes and what upstream has shown go, for the purge itself may have made the deletes, and
// upstream may have shown what is purged.
//
// A pending write stays, with the copy that it is based on, the name of its request, and what requests may have left upstream.
// Where nothing is pending, it stays known only that something may have been left. Then Purge makes the files free of the data: it
// merges the tables, and replaces the logs. Readers ask upstream again. After a crash, or an error, the caller purges again. What
// a recovery has left beside the journal stays: see [Journal.Aside].
//
// Purge is not done while a reader still has an old file open, or the disk has no room to merge tables: it
// waits for that, and returns ctx's error when ctx ends first.
//
// Errors: [ErrRebuilding], ctx's, [ErrClosed], [ErrFailed], [ErrCorrupt], and those of the file system.
func (j *Journal) Purge(ctx context.Context, namespace, key string, upTo uint64) (done Purged, err error) {
	select {
	case <-j.queue.Rebuilt():
	default:
		return done, ErrRebuilding // the index must know which versions are pending
	}
	select {
	case j.purges <- struct{}{}:
		defer func() { <-j.purges }()
	case <-ctx.Done():
		return done, ctx.Err()
	}
	last := j.store.Totals().Seq
	p := &queue.Purge{Of: ID{Namespace: namespace, Key: key}, UpTo: min(upTo, last), Last: last}
	for _, part := range []func(context.Context, *queue.Purge) error{
		j.queue.PurgeLetters, j.entries.PurgeListing, j.entries.PurgeLosses, j.entries.PurgeCopies, j.queue.PurgeLeft, j.queue.PurgeReceipts,
	} {
		if err := j.store.Use(func() error { return part(ctx, p) }); err != nil {
			return p.Done, err
		}
	}
	p.Done.Pending = j.queue.CountPending(p.Of)
	return p.Done, j.store.Purge(ctx, spansOf(p.Of))
}

// Aside returns the directories that a recovery has left beside the journal with all that the journal held
// then.
func (j *Journal) Aside() ([]string, error) { return recovery.Aside(j.opts.FS, j.opts.Dir) }

// spansOf returns the ranges of keys that may hold records of an entry, or of a namespace without a key.
func spansOf(of ID) (spans []store.Span) {
	for _, kind := range record.Kinds {
		from, to, some := kind.Of(of)
		if kind.Keyed == record.ByNumber { // its records name the entry in their values
			from, to = kind.Bounds()
			some = true
		}
		if some {
			spans = append(spans, store.Span{From: from, To: to})
		}
	}
	return spans
}
