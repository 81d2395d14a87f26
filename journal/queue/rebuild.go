package queue

import (
	"context"
	"errors"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// rebuildChunk is the number of records that the rebuild adds to the index under one hold of the
// readers' lock. It bounds how long callers wait.
const rebuildChunk = 256

// Rebuilt returns a channel that is closed when the pending index is complete.
func (q *Queue) Rebuilt() <-chan struct{} { return q.rebuilt }

// Complete says that the index knows every pending write.
func (q *Queue) Complete() {
	q.Readers.Lock()
	defer q.Readers.Unlock()
	if !q.index.Complete() {
		q.index.SetComplete()
		close(q.rebuilt)
	}
}

// waiting is a pending write as found in the store.
type waiting struct {
	id ID
	v  record.Pending
}

// Rebuild reads all pending records into the index.
func (q *Queue) Rebuild(ctx context.Context) (err error) {
	snapshot := q.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	chunk := make([]waiting, 0, rebuildChunk)
	err = store.ScanPending(snapshot, []byte(record.PendingPrefix), func(id record.ID, v record.Pending) error {
		if len(chunk) >= rebuildChunk {
			if err := ctx.Err(); err != nil {
				return err
			}
			q.restoreAll(chunk)
			chunk = chunk[:0]
		}
		chunk = append(chunk, waiting{id, v})
		return nil
	})
	if err == nil {
		q.restoreAll(chunk)
	}
	return err
}

func (q *Queue) restoreAll(records []waiting) {
	q.Readers.Lock()
	defer q.Readers.Unlock()
	for i := range records {
		if !q.index.Known(records[i].id) { // guard 5.5
			q.restore(&records[i])
		}
	}
}

// restore adds a pending write to the index, unless an earlier rebuild did. The caller holds the
// readers' lock, and the index must not know the entry yet.
func (q *Queue) restore(r *waiting) {
	if _, ok := q.index.Get(r.id).Latest(); ok {
		return
	}
	q.index.Restore(r.id, r.v)
	q.Readers.Changed(Change{ID: r.id, Seq: r.v.Seq, Written: true, Op: r.v.Op, Bytes: int(r.v.Bytes), Found: true})
}

// FaultIn loads the entry into the index if it is not known there yet.
func (q *Queue) FaultIn(id ID) error { return q.faultInUnder(record.PendingOf, id) }

// FaultInSpace loads the entries of a namespace into the index if they are not known there yet.
func (q *Queue) FaultInSpace(namespace string) error {
	return q.faultInUnder(func(id ID) []byte { return record.Within(record.PendingPrefix, id.Namespace) }, ID{Namespace: namespace})
}

// faultInUnder reads the pending records under a prefix into the index. No write to an entry can begin
// before the index knows the entry, so the records stay valid.
func (q *Queue) faultInUnder(prefix func(ID) []byte, id ID) error {
	q.Readers.RLock()
	known := q.index.Known(id)
	q.Readers.RUnlock()
	if known {
		return nil
	}
	var records []waiting
	err := store.ScanPending(q.store.DB(), prefix(id), func(id record.ID, v record.Pending) error {
		records = append(records, waiting{id, v})
		return nil
	})
	if err != nil {
		return q.store.Owed(err)
	}
	q.Readers.Lock()
	defer q.Readers.Unlock()
	// Another caller may have been faster, and have written or settled the entry since.
	for i := range records {
		if !q.index.Known(records[i].id) { // guard 5.4
			q.restore(&records[i])
		}
	}
	for i := range records {
		q.index.Touch(records[i].id)
	}
	q.index.Touch(id)
	return nil
}
