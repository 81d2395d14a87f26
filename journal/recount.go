package journal

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// recountAgain counts anew if copies have gone of which the count does not know.
func (c *copies) recountAgain(ctx context.Context) error {
	s := c.sizes
	if s == nil || !s.outdated.Swap(false) {
		return nil
	}
	return c.recount(ctx)
}

// recount makes the count of sizes from what is on the disk. It adds up a snapshot, and then the
// changes since: no writer waits for it. Entries that were counted before, and that the disk has
// no more, go on counting: the maintainer has removed them to make room.
func (c *copies) recount(ctx context.Context) (err error) {
	s := c.sizes
	if s == nil {
		return nil
	}
	if err := s.stopDeferring(); err != nil {
		return err
	}
	var snapshot *pebble.Snapshot
	err = c.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		if _, err := tx.Reader(); err != nil { // applies what has gathered
			return err
		}
		snapshot = c.store.Snapshot()
		s.beginCount()
		return nil
	}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	counted := &counting{copies: c, snapshot: snapshot, found: make(map[string]found)}
	err = counted.all(ctx)
	if store.IsDamage(err) {
		s.miscounted() // once the table is repaired, it is counted anew
		_, err = c.giveUp(err)
		return err
	}
	if err == nil {
		// With Options.NotBefore a listing leaves copies of entries with a pending write, and so
		// what is settled of an unmeasured one would be counted wrong.
		s.endCount(counted.found, c.pending.notBefore == nil)
		s.tell()
	}
	return err
}

// found is what the entries of a namespace with no pending write hold.
type found struct{ bytes, largest int64 }

// counting adds up what a snapshot holds.
type counting struct {
	copies   *copies
	snapshot *pebble.Snapshot
	found    map[string]found
}

func (c *counting) all(ctx context.Context) error {
	rows, err := c.snapshot.NewIter(&pebble.IterOptions{
		LowerBound: []byte(record.RowPrefix), UpperBound: record.After([]byte(record.RowPrefix)),
	})
	if err != nil {
		return err
	}
	rows.First()
	err = errors.Join(c.entries(ctx, rows), rows.Close())
	if err == nil {
		err = c.withoutPending(ctx)
	}
	return err
}

// entries adds up the rows, and the copies of entries without a row. Both are in one order.
func (c *counting) entries(ctx context.Context, rows *pebble.Iterator) error {
	prefix := []byte(record.SettledPrefix)
	err := store.Each(c.snapshot, prefix, record.After(prefix), func(key, value []byte) error {
		entry := key[len(prefix):]
		if err := c.rowsBefore(rows, entry); err != nil {
			return err
		}
		if rows.Valid() && bytes.Equal(rows.Key()[len(record.RowPrefix):], entry) {
			return ctx.Err()
		}
		id, err := record.ParseEntryKey(record.SettledPrefix, key)
		if err != nil {
			return nil //nolint:nilerr // a damaged key: nobody reads its copy
		}
		if body, err := record.Unseal(key, value); err == nil { // a damaged copy counts for nothing
			if o, _, err := record.DecodeSettledHead(body); err == nil {
				c.add(id.Namespace, int64(o.ListBytes))
			}
		}
		return ctx.Err()
	})
	if err == nil {
		err = c.rowsBefore(rows, nil)
	}
	return err
}

// rowsBefore adds up the rows that come before an entry, or with nil all that are left.
func (c *counting) rowsBefore(rows *pebble.Iterator, entry []byte) error {
	for ; rows.Valid(); rows.Next() {
		if entry != nil && bytes.Compare(rows.Key()[len(record.RowPrefix):], entry) >= 0 {
			break
		}
		id, err := record.ParseEntryKey(record.RowPrefix, rows.Key())
		if err != nil {
			continue
		}
		if body, err := record.Unseal(rows.Key(), rows.Value()); err == nil {
			if row, err := record.DecodeRow(id.Key, body); err == nil {
				c.add(id.Namespace, int64(row.ListBytes))
			}
		}
	}
	return rows.Error()
}

func (c *counting) add(namespace string, n int64) {
	f := c.found[namespace]
	f.bytes += n
	f.largest = max(f.largest, n)
	c.found[namespace] = f
}

// withoutPending takes off the entries with a pending write, which count with that.
func (c *counting) withoutPending(ctx context.Context) error {
	var last ID
	prefix := []byte(record.PendingPrefix)
	return store.Each(c.snapshot, prefix, record.After(prefix), func(key, _ []byte) error {
		id, _, err := record.ParsePendingKey(key)
		if err != nil || id == last {
			return err
		}
		last = id
		b, err := c.copies.baseOf(c.snapshot, id)
		if f, ok := c.found[id.Namespace]; ok {
			f.bytes -= b.bytes
			c.found[id.Namespace] = f
		}
		return errors.Join(err, ctx.Err())
	})
}

// beginCount has the changes from now on noted apart. The caller is in the store's order.
func (s *Sizes) beginCount() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	s.counting = true
}

// endCountChunk is how many namespaces endCount looks at under one hold of the lock.
const endCountChunk = 256

// endCount puts what was found in the place of the count. deferring is whether writes may be taken
// unmeasured from now on.
func (s *Sizes) endCount(all map[string]found, deferring bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace := range s.spaces {
		if _, ok := all[namespace]; !ok {
			all[namespace] = found{}
		}
	}
	seen := 0
	for namespace, f := range all {
		s.recounted(namespace, f)
		if seen++; seen%endCountChunk == 0 { // writers wait for the lock
			s.mu.Unlock()
			s.mu.Lock()
		}
	}
	s.counting, s.deferring = false, deferring
}

// recounted puts what was found of a namespace in the place of its count. The first recount
// finds what nobody has counted yet, and later ones what is left of it. The caller holds mu.
func (s *Sizes) recounted(namespace string, f found) {
	sp := s.of(namespace)
	s.settle(sp, 0)
	now := f.bytes + sp.since
	if s.count > 1 {
		sp.removed += max(0, sp.settled-now)
	}
	sp.settled = now
	sp.largest = max(sp.largest, f.largest)
	s.note(namespace, sp, s.opts.Limit(namespace), false)
}
