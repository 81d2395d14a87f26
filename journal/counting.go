package journal

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// baseOf returns an entry's size without its pending write: from its row, else its copy, else 0 if a
// complete listing lacks it.
func (c *copies) baseOf(id ID) (base, error) {
	row, listed, err := c.row(record.RowKey(id.Namespace, id.Key), id.Key)
	if err != nil || listed {
		return base{int64(row.ListBytes), listed}, err
	}
	copied, err := c.head(id)
	if err != nil || copied.UpdatedAt != 0 {
		return base{int64(copied.ListBytes), true}, err
	}
	h, _, err := readHeader(c.store.DB(), id.Namespace)
	_, err = c.giveUp(err)
	return base{known: h.Complete}, err
}

// found holds the counts of one namespace's records on the disk, in bytes.
type found struct{ bytes, uncopied, largest int64 }

func (f *found) add(bytes int) {
	f.bytes += int64(bytes)
	f.uncopied += int64(bytes)
	f.largest = max(f.largest, int64(bytes))
}

// countSizes makes the count of sizes from what is on the disk. It adds up a snapshot, on top of the
// changes since: no writer waits for it. Damage ends the count early.
func (c *copies) countSizes(ctx context.Context) (err error) {
	if c.sizes == nil {
		return nil
	}
	var snapshot *pebble.Snapshot
	err = c.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
		if _, err := tx.Reader(); err != nil { // applies what has gathered
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
	all := make(map[string]*found)
	err = addUp(ctx, snapshot, all)
	if _, err = c.giveUp(err); err == nil {
		c.sizes.counted(all)
	}
	return err
}

// addUp adds up the rows, and the copies of entries without a row.
func addUp(ctx context.Context, r pebble.Reader, all map[string]*found) error {
	of := func(namespace string) *found {
		if all[namespace] == nil {
			all[namespace] = &found{}
		}
		return all[namespace]
	}
	prefix := []byte(record.RowPrefix)
	err := store.Each(r, prefix, record.After(prefix), func(key, value []byte) error {
		id, err := record.ParseEntryKey(record.RowPrefix, key)
		if err != nil {
			return nil //nolint:nilerr // a damaged key: nobody reads its row
		}
		if body, err := record.Unseal(key, value); err == nil {
			if row, err := record.DecodeRow(id.Key, body); err == nil {
				of(id.Namespace).add(row.ListBytes)
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
		f, listed := of(id.Namespace), false
		if f.bytes > 0 { // there may be rows
			listed, err = store.Get(r, record.RowKey(id.Namespace, id.Key), func([]byte) error { return nil })
		}
		if !listed {
			f.add(o.ListBytes)
		}
		f.uncopied -= int64(o.ListBytes)
		return errors.Join(err, ctx.Err())
	})
}

// unsettle forgets what has settled: a snapshot holds it. The caller is in the store's order.
func (s *Sizes) unsettle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.spaces {
		sp.settled, sp.uncopied = 0, 0
	}
}

// counted adds what a snapshot holds.
func (s *Sizes) counted(all map[string]*found) {
	for namespace, f := range all {
		s.mu.Lock()
		sp := s.of(namespace)
		sp.settled += f.bytes // guard 18.21
		sp.uncopied += max(0, f.uncopied)
		sp.largest = max(sp.largest, f.largest)
		s.mu.Unlock()
	}
	s.Changed()
}

// judgeSizes looks at the namespaces that seem nearly full: it measures their pending writes, and
// logs when one becomes nearly full or full.
func (c *copies) judgeSizes() error {
	for _, namespace := range c.sizes.nearOnes() {
		if err := c.measure(namespace); err != nil {
			return err
		}
		c.sizes.judge(namespace)
	}
	return nil
}

// measure subtracts from the count what a namespace's pending writes replace. An unknown entry
// counts as new.
func (c *copies) measure(namespace string) error {
	c.sizes.measuring.Lock()
	defer c.sizes.measuring.Unlock()
	if !c.sizes.beginMeasuring(namespace) {
		return nil
	}
	var ids []ID
	for _, space := range c.pending.spaces(namespace) {
		for cursor, done := 0, false; !done; {
			ids = ids[:0]
			c.readers.RLock()
			cursor, done = space.WalkUnmeasured(cursor, walkChunk, func(e *pending.Entry) { ids = append(ids, e.ID()) })
			c.readers.RUnlock()
			bases := make([]base, len(ids))
			for i, id := range ids {
				var err error
				if bases[i], err = c.baseOf(id); err != nil {
					return err
				}
			}
			c.store.InOrder(func(record.Totals) { c.markMeasured(ids, bases) })
		}
	}
	return nil
}

// markMeasured marks entries with a pending write. The caller is in the store's order: no write retires.
func (c *copies) markMeasured(ids []ID, bases []base) {
	c.readers.Lock()
	defer c.readers.Unlock()
	for i, id := range ids {
		if e := c.pending.index.Get(id); bases[i].known && e != nil && !e.Measured() {
			e.TakeOff(bases[i].bytes)
			c.sizes.measured(id.Namespace, bases[i]) // guard 18.18
		}
	}
}

// beginMeasuring reports whether the namespace has unmeasured pending writes, and begins to measure
// them if so.
func (s *Sizes) beginMeasuring(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.of(namespace)
	was := sp.unmeasured
	sp.unmeasured = false
	return was
}

func (s *Sizes) measured(namespace string, b base) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(namespace).replaced += b.bytes
}

// judge logs when a namespace has become nearly full, or full, which a refused write shows. It
// forgets that when the namespace has been well below for a while.
func (s *Sizes) judge(namespace string) {
	limit := s.opts.Limit(namespace)
	s.mu.Lock()
	sp := s.of(namespace)
	if sp.learned != nil && sp.learned.rough {
		sp.learned.limit, sp.learned.rough = sp.bytes(), false
	}
	r, now := sp.report(limit), notFull
	switch {
	case sp.refused:
		now = full
	case r.isNear(nearFull):
		now = nearlyFull
	case !r.isNear(nearFullNoMore) && time.Since(sp.loggedAt) >= logAgain:
		sp.logged = notFull
		delete(s.near, namespace)
	}
	sp.refused = false
	log := now > sp.logged
	if log {
		sp.logged, sp.loggedAt = now, time.Now()
	}
	s.note(namespace, sp, limit)
	s.mu.Unlock()
	if !log {
		return
	}
	what := "a namespace is nearly full: at its limit, writes that make it larger are refused"
	if now == full {
		what = "a namespace is full: writes that make it larger are refused until entries are deleted or the limit is raised"
	}
	from := "quota.namespace_bytes"
	if !r.LearnedUntil.IsZero() {
		from = "upstream"
	}
	s.opts.Logger.Warn(what, "namespace", namespace, "bytes", r.Bytes, "limit", r.Limit, "limit_from", from)
}
