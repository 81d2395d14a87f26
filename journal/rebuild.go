package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// rebuildChunk is how many records are taken into the index under one hold of the
// locks: callers wait no longer than that takes.
const rebuildChunk = 256

// Run rebuilds the pending index and checks the store against its state record.
// Until it has finished, an entry that is asked for is looked up in the store.
//
// Errors: [ErrCorrupt] when the store holds fewer, other or more pending writes than
// were acknowledged, and ctx's.
func (j *Journal) Run(ctx context.Context) error {
	snapshot := j.db.NewSnapshot()
	found, err := j.rebuild(ctx, snapshot)
	if err == nil {
		err = verify(snapshot, found)
	}
	if err = errors.Join(err, snapshot.Close()); err != nil {
		return fmt.Errorf("journal %s: %w", j.opts.Dir, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.index.touched = nil
	for _, s := range j.index.spaces {
		s.sortByAge()
	}
	close(j.rebuilt)
	return nil
}

// Rebuilt is closed when the pending index is complete.
func (j *Journal) Rebuilt() <-chan struct{} { return j.rebuilt }

// verify compares what a scan found with what the state record says. The two come
// from one snapshot, and every batch rewrites the state record.
func verify(snapshot *pebble.Snapshot, found totals) error {
	want, err := readTotals(snapshot)
	if err != nil {
		return err
	}
	if found.pending != want.pending || found.pendingBytes != want.pendingBytes || found.sum != want.sum {
		return fmt.Errorf("%w: it holds %d pending writes (%d bytes), and %d (%d bytes) were acknowledged",
			ErrCorrupt, found.pending, found.pendingBytes, want.pending, want.pendingBytes)
	}
	if found.seq > want.seq {
		return fmt.Errorf("%w: it holds write %d, and the last one acknowledged is %d", ErrCorrupt, found.seq, want.seq)
	}
	return nil
}

func (j *Journal) rebuild(ctx context.Context, snapshot *pebble.Snapshot) (found totals, err error) {
	chunk := make([]retired, 0, rebuildChunk)
	err = scanPending(snapshot, []byte(pendingPrefix), func(id ID, v version) error {
		found.add(id, &v)
		found.seq = max(found.seq, v.seq)
		// An entry's records stand in one run: a chunk never ends inside it.
		if len(chunk) >= rebuildChunk && chunk[len(chunk)-1].id != id {
			if err := ctx.Err(); err != nil {
				return err
			}
			j.restoreAll(chunk)
			chunk = chunk[:0]
		}
		chunk = append(chunk, retired{id, v})
		return nil
	})
	if err == nil {
		j.restoreAll(chunk)
	}
	return found, err
}

// scanPending calls visit for every pending record under a prefix, in the order of
// entry and sequence number.
func scanPending(r pebble.Reader, prefix []byte, visit func(ID, version) error) error {
	return scan(r, prefix, func(key, body []byte, sum uint32) error {
		id, seq, err := parsePendingKey(key)
		if err != nil {
			return err
		}
		v, _, err := decodePending(body)
		if err != nil {
			return fmt.Errorf("%w (write %d to %s)", err, seq, id)
		}
		v.seq, v.sum = seq, sum
		return visit(id, v)
	})
}

// scan calls visit for every sealed record under a prefix. Key and body are valid
// only during the call.
func scan(r pebble.Reader, prefix []byte, visit func(key, body []byte, sum uint32) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		body, err := unseal(it.Key(), it.Value())
		if err == nil {
			err = visit(it.Key(), body, sealedSum(it.Value()))
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

func (j *Journal) restoreAll(records []retired) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range records {
		last := i+1 == len(records) || records[i+1].id != records[i].id
		if _, touched := j.index.touched[records[i].id]; !touched {
			j.restore(records[i], last)
		}
	}
}

// restore takes one record into the index: an entry's last is its pending write,
// those before it were superseded and not yet removed.
func (j *Journal) restore(r retired, last bool) {
	if !last {
		j.garbage = append(j.garbage, r)
		return
	}
	j.index.show(j.index.ensure(r.id), &r.v)
	j.changed(Change{ID: r.id, Seq: r.v.seq, Written: true})
}

// faultIn makes sure that the index speaks for the entry. The caller holds commitMu,
// under which the store does not change.
func (j *Journal) faultIn(id ID) error {
	j.mu.RLock()
	known := j.index.known(id)
	j.mu.RUnlock()
	if known {
		return nil
	}
	return j.faultInUnder(pendingOf(id), id)
}

// faultInUnder takes the pending records under a prefix into the index. id is marked
// as known even if it has none.
func (j *Journal) faultInUnder(prefix []byte, id ID) error {
	var records []retired
	err := scanPending(j.db, prefix, func(id ID, v version) error {
		records = append(records, retired{id, v})
		return nil
	})
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.index.complete() {
		return nil
	}
	for i := range records {
		last := i+1 == len(records) || records[i+1].id != records[i].id
		if _, touched := j.index.touched[records[i].id]; touched {
			continue
		}
		// A record of the index that a chunk of the rebuild put there is not touched;
		// it is the same record.
		if j.index.get(records[i].id).latest() == nil {
			j.restore(records[i], last)
		}
		if last {
			j.index.touched[records[i].id] = struct{}{}
		}
	}
	if id.Key != "" {
		j.index.touched[id] = struct{}{}
	}
	return nil
}
