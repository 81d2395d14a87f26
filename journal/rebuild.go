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
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	snapshot := j.db.NewSnapshot()
	found, err := j.rebuild(ctx, snapshot)
	if err == nil {
		err = verify(snapshot, found)
	}
	if err = errors.Join(err, snapshot.Close()); err != nil {
		return refusal(j.opts.Dir, storeError(err))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.index.complete() {
		return nil
	}
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
	return compareTotals(found, want)
}

func compareTotals(found, want totals) error {
	if found.pending != want.pending || found.pendingBytes != want.pendingBytes || found.sum != want.sum {
		return fmt.Errorf("%w: it holds %d pending writes (%d bytes), and %d (%d bytes) were acknowledged",
			ErrCorrupt, found.pending, found.pendingBytes, want.pending, want.pendingBytes)
	}
	if found.dead != want.dead || found.deadBytes != want.deadBytes {
		return fmt.Errorf("%w: it holds %d dead letters (%d bytes), and there were %d (%d bytes)",
			ErrCorrupt, found.dead, found.deadBytes, want.dead, want.deadBytes)
	}
	if found.seq > want.seq {
		return fmt.Errorf("%w: it holds write %d, and the last one acknowledged is %d", ErrCorrupt, found.seq, want.seq)
	}
	return nil
}

func (j *Journal) rebuild(ctx context.Context, snapshot *pebble.Snapshot) (totals, error) {
	return count(ctx, snapshot, j.restoreAll)
}

// count adds up what the store holds, and hands its pending records on in chunks. An
// entry's records stand in one run: a chunk never ends inside it.
func count(ctx context.Context, r pebble.Reader, each func([]retired)) (found totals, err error) {
	chunk := make([]retired, 0, rebuildChunk)
	err = scanPending(r, []byte(pendingPrefix), func(id ID, v version) error {
		found.add(id, &v)
		found.seq = max(found.seq, v.seq)
		if len(chunk) >= rebuildChunk && chunk[len(chunk)-1].id != id {
			if err := ctx.Err(); err != nil {
				return err
			}
			each(chunk)
			chunk = chunk[:0]
		}
		chunk = append(chunk, retired{id, v})
		return nil
	})
	if err != nil {
		return found, err
	}
	each(chunk)
	err = scanDead(r, func(l DeadLetter) {
		found.dead++
		found.deadBytes += l.size()
		found.seq = max(found.seq, l.Seq)
	})
	return found, err
}

// scanPending calls visit for every pending record under a prefix, in the order of
// entry and sequence number.
func scanPending(r pebble.Reader, prefix []byte, visit func(ID, version) error) error {
	return scan(r, prefix, func(key, body []byte, sum uint32) error {
		id, v, err := readPending(key, body, sum)
		if err != nil {
			return err
		}
		return visit(id, v)
	})
}

// readPending is the pending write that a record is of.
func readPending(key, body []byte, sum uint32) (ID, version, error) {
	id, seq, err := parsePendingKey(key)
	if err != nil {
		return ID{}, version{}, err
	}
	v, _, err := decodePending(body)
	if err != nil {
		return ID{}, version{}, fmt.Errorf("%w (write %d to %s)", err, seq, id)
	}
	v.seq, v.sum = seq, sum
	return id, v, nil
}

// scan calls visit for every sealed record under a prefix. Key and body are valid
// only during the call.
func scan(r pebble.Reader, prefix []byte, visit func(key, body []byte, sum uint32) error) error {
	return scanRange(r, prefix, after(prefix), visit)
}

// scanRange is scan of the keys from one up to another.
func scanRange(r pebble.Reader, from, to []byte, visit func(key, body []byte, sum uint32) error) error {
	return eachIn(r, from, to, func(key, value []byte) error {
		body, err := unseal(key, value)
		if err != nil {
			return err
		}
		return visit(key, body, sealedSum(value))
	})
}

// each is scan of records as they are.
func each(r pebble.Reader, prefix []byte, visit func(key, value []byte) error) error {
	return eachIn(r, prefix, after(prefix), visit)
}

func eachIn(r pebble.Reader, from, to []byte, visit func(key, value []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		if err := visit(it.Key(), it.Value()); err != nil {
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
		j.restore(records, i)
	}
}

// restore takes one of the records into the index, unless the index speaks for its
// entry: an entry's last is its pending write, those before it were superseded and
// not yet removed. What a chunk of an earlier rebuild put there is the same. The
// caller holds commitMu and mu.
func (j *Journal) restore(records []retired, i int) (last bool) {
	r := records[i]
	last = i+1 == len(records) || records[i+1].id != r.id
	if j.index.known(r.id) || j.index.get(r.id).latest() != nil {
		return last
	}
	if !last {
		j.superseded += r.v.size(r.id)
		j.garbage = append(j.garbage, r)
		return last
	}
	j.index.show(j.index.ensure(r.id), &r.v)
	j.changed(Change{ID: r.id, Seq: r.v.seq, Written: true})
	return last
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

// faultInUnder takes the pending records under a prefix into the index. id, an entry
// or with an empty key a namespace, is known from then on even if it has none.
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
		if last := j.restore(records, i); last {
			j.index.touched[records[i].id] = struct{}{}
		}
	}
	j.index.touched[id] = struct{}{}
	return nil
}
