package journal

import (
	"context"
	"errors"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// rebuildChunk is the number of records that the rebuild adds to the index under one hold of the
// readers' lock. It bounds how long callers wait.
const rebuildChunk = 256

// Run rebuilds the pending index, and adds up the listings. Until it has finished, the journal looks up each
// requested entry in the store.
//
// Errors: ctx's, [ErrCorrupt], and those of the file system.
func (j *Journal) Run(ctx context.Context) error {
	err := j.use(func() error { return j.rebuild(ctx) })
	if err == nil {
		err = j.use(func() error { return j.Listings.sum(ctx) })
	}
	if err != nil {
		return refusedStart(j.opts.Dir, err)
	}
	return nil
}

func (j *Journal) rebuild(ctx context.Context) error {
	err := j.pending.rebuild(ctx)
	if err == nil {
		err = j.dead.markSettled(ctx, j.copies)
	}
	if err != nil {
		return store.Classify(err)
	}
	j.pending.readers.Lock()
	defer j.pending.readers.Unlock()
	if !j.pending.index.Complete() {
		j.pending.index.SetComplete()
		close(j.rebuilt)
	}
	return nil
}

// Rebuilt returns a channel that is closed when the pending index is complete.
func (j *Journal) Rebuilt() <-chan struct{} { return j.rebuilt }

// waiting is a pending write as found in the store.
type waiting struct {
	id ID
	v  record.Pending
}

// rebuild reads all pending records into the index.
func (p *pendingSet) rebuild(ctx context.Context) (err error) {
	snapshot := p.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	chunk := make([]waiting, 0, rebuildChunk)
	err = store.ScanPending(snapshot, []byte(record.PendingPrefix), func(id record.ID, v record.Pending) error {
		if len(chunk) >= rebuildChunk {
			if err := ctx.Err(); err != nil {
				return err
			}
			p.restoreAll(chunk)
			chunk = chunk[:0]
		}
		chunk = append(chunk, waiting{id, v})
		return nil
	})
	if err == nil {
		p.restoreAll(chunk)
	}
	return err
}

func (p *pendingSet) restoreAll(records []waiting) {
	p.readers.Lock()
	defer p.readers.Unlock()
	for i := range records {
		if !p.index.Known(records[i].id) { // guard 5.5
			p.restore(&records[i])
		}
	}
}

// restore adds a pending write to the index, unless an earlier rebuild did. The caller holds the
// readers' lock, and the index must not know the entry yet.
func (p *pendingSet) restore(r *waiting) {
	if _, ok := p.index.Get(r.id).Latest(); ok {
		return
	}
	p.index.Restore(r.id, r.v)
	p.readers.changed(Change{ID: r.id, Seq: r.v.Seq, Written: true, Op: r.v.Op, Bytes: int(r.v.Bytes), Found: true})
}

// faultIn loads the entry into the index if it is not known there yet.
func (p *pendingSet) faultIn(id ID) error { return p.faultInUnder(record.PendingOf, id) }

func (p *pendingSet) faultInSpace(namespace string) error {
	return p.faultInUnder(func(id ID) []byte { return record.Within(record.PendingPrefix, id.Namespace) }, ID{Namespace: namespace})
}

// faultInUnder reads the pending records under a prefix into the index. No write to an entry can begin
// before the index knows the entry, so the records stay valid.
func (p *pendingSet) faultInUnder(prefix func(ID) []byte, id ID) error {
	p.readers.RLock()
	known := p.index.Known(id)
	p.readers.RUnlock()
	if known {
		return nil
	}
	var records []waiting
	err := store.ScanPending(p.store.DB(), prefix(id), func(id record.ID, v record.Pending) error {
		records = append(records, waiting{id, v})
		return nil
	})
	if err != nil {
		return p.store.Owed(err)
	}
	p.readers.Lock()
	defer p.readers.Unlock()
	// Another caller may have been faster, and have written or settled the entry since.
	for i := range records {
		if !p.index.Known(records[i].id) { // guard 5.4
			p.restore(&records[i])
		}
	}
	for i := range records {
		p.index.Touch(records[i].id)
	}
	p.index.Touch(id)
	return nil
}
