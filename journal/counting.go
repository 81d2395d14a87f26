package journal

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// prepare looks up the entry that a write replaces, if the namespace is close enough to its limit.
func (c *copies) prepare(a *appending) error {
	s := c.sizes
	if s == nil {
		return nil
	}
	a.limit = s.opts.Limit(a.Namespace)
	s.mu.Lock()
	r := s.spaces[a.Namespace].report(a.limit)
	s.mu.Unlock()
	if !r.holds(lookFrom, putSize(a.Op, a.ListBytes)) { // guard 18.18
		return nil
	}
	if c.pending.isPending(a.ID) { // its size is known
		return nil
	}
	return c.look(a)
}

// look finds the size of the entry that the write replaces. It takes the listing's row, or else the
// settled copy.
func (c *copies) look(a *appending) error {
	a.looked = true
	row, listed, err := c.row(record.RowKey(a.Namespace, a.Key), a.Key)
	if a.base = row.ListBytes; err != nil || listed {
		return err
	}
	copied, err := c.head(a.ID)
	a.base = copied.ListBytes
	return err
}

// admitSize counts a write or refuses it. For a write on trial, it only checks. The caller is in the
// store's order. latest is the entry's newest pending write, if one exists.
func (c *copies) admitSize(a *appending, latest *record.Version, exists bool) error {
	look, err := c.sizes.admit(a, latest, exists)
	if look {
		// Other writes have just filled the namespace. This is so rare that the writes queued behind
		// this one can wait for the lookup.
		if err = c.look(a); err == nil {
			_, err = c.sizes.admit(a, latest, exists)
		}
	}
	return err
}

// countSizes counts the sizes of the entries on disk. It adds up a snapshot on top of the changes since
// the snapshot, so no writer waits. Damage ends the count early.
func (c *copies) countSizes(ctx context.Context) (err error) {
	if c.sizes == nil {
		return nil
	}
	var snapshot *pebble.Snapshot
	err = c.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		if _, err := tx.Reader(); err != nil { // applies the gathered changes
			return err
		}
		snapshot = c.store.Snapshot()
		c.sizes.unsettle()
		return nil
	}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	_, err = c.giveUp(c.addUp(ctx, snapshot))
	c.sizes.allCounted()
	return err
}

// addUp counts all rows, and the copies of entries without a row.
func (c *copies) addUp(ctx context.Context, r pebble.Reader) error {
	prefix := []byte(record.RowPrefix)
	err := store.Each(r, prefix, record.After(prefix), func(key, value []byte) error {
		id, err := record.ParseEntryKey(record.RowPrefix, key)
		if err != nil {
			return nil //nolint:nilerr // a damaged key: nobody reads its row
		}
		if body, err := record.Unseal(key, value); err == nil {
			if row, err := record.DecodeRow(id.Key, body); err == nil {
				c.count(id, int64(row.ListBytes))
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	prefix = []byte(record.SettledPrefix)
	return store.Each(r, prefix, record.After(prefix), func(key, value []byte) error {
		id, err := record.ParseEntryKey(record.SettledPrefix, key)
		if err != nil {
			return nil //nolint:nilerr // likewise
		}
		body, err := record.Unseal(key, value)
		if err != nil {
			return nil //nolint:nilerr // a damaged copy counts for nothing
		}
		o, _, err := record.DecodeSettledHead(body)
		if err != nil {
			return nil //nolint:nilerr // likewise
		}
		listed, err := store.Get(r, record.RowKey(id.Namespace, id.Key), func([]byte) error { return nil })
		if !listed {
			c.count(id, int64(o.ListBytes))
		}
		return errors.Join(err, ctx.Err())
	})
}

// count counts an entry on disk, and what a pending write of an earlier process replaces of it.
func (c *copies) count(id ID, bytes int64) {
	c.sizes.counted(id.Namespace, bytes, c.replaced(id, bytes))
}

// replaced records that the entry's pending write replaces the given number of bytes, and returns that
// number. It returns 0 if no write is pending, or if a number is already recorded.
func (c *copies) replaced(id ID, bytes int64) int64 {
	if !c.pending.isPending(id) {
		return 0
	}
	c.readers.Lock()
	defer c.readers.Unlock()
	e := c.pending.index.Get(id)
	if e == nil || e.Replaces != 0 {
		return 0
	}
	e.Replaces = int32(bytes)
	return bytes
}
