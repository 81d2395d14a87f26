package journal

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/recovery"
	"github.com/botwired/botwired/journal/internal/store"
)

// purgedAtOnce bounds how many receipts, or losses, one change removes.
const purgedAtOnce = 256

// Purged counts what [Journal.Purge] has removed.
type Purged struct {
	Copies, Versions, DeadLetters, Receipts int
	// Pending counts the entries with a pending write. The write stays, and the copy that it is based on.
	Pending int
}

// Purge removes everything that the journal keeps of an entry, or of a namespace if the key is empty:
// copies, versions, dead letters and receipts, but not those of writes after the one with the number upTo.
// Then it makes the files free of their data: it merges the tables, and replaces the logs. It leaves pending writes alone,
// and the checksums of what earlier requests for their entries may have left upstream. Readers ask upstream again. After a crash,
// or an error, the caller purges again.
//
// Purge is not done while a reader still has an old file open, or the disk has no room to merge tables: it
// waits for that, and returns ctx's error when ctx ends first.
//
// Errors: [ErrRebuilding], ctx's, [ErrClosed], [ErrFailed], [ErrCorrupt], and those of the file system.
func (j *Journal) Purge(ctx context.Context, namespace, key string, upTo uint64) (done Purged, err error) {
	select {
	case <-j.rebuilt:
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
	p := &purge{Journal: j, of: ID{Namespace: namespace, Key: key}, upTo: min(upTo, last), last: last}
	if err := p.deadLetters(ctx); err != nil {
		return p.done, err
	}
	for _, part := range []func(context.Context) error{p.listing, p.losses, p.copiesAndVersions, p.left, p.receipts} {
		if err := j.use(func() error { return part(ctx) }); err != nil {
			return p.done, err
		}
	}
	p.done.Pending = p.waiting()
	return p.done, j.store.Purge(ctx, p.spans())
}

// Aside returns the directories that a recovery has left beside the journal with all that the journal held
// then.
func (j *Journal) Aside() ([]string, error) { return recovery.Aside(j.opts.FS, j.opts.Dir) }

// purge is one call of [Journal.Purge].
type purge struct {
	*Journal
	of   ID     // of a namespace: without a key
	upTo uint64 // it leaves later writes alone
	last uint64 // the newest number when the purge began
	done Purged
}

func (p *purge) covers(id ID) bool {
	return id.Namespace == p.of.Namespace && (p.of.Key == "" || id.Key == p.of.Key)
}

// waiting returns the number of entries with a pending write.
func (p *purge) waiting() (n int) {
	l := p.pending.readers
	l.RLock()
	defer l.RUnlock()
	switch space := p.pending.index.Space(p.of.Namespace); {
	case space == nil:
	case p.of.Key == "":
		n = space.Len()
	case p.pending.waits(p.of):
		n = 1
	}
	return n
}

// purging is a change that makes answers about an entry, or a namespace's listing, outdated.
type purging struct {
	store.ChangeFunc
	*readersLock
	changed []ID
	unlock  func() // releases the copies lock
}

// Applied lets others change the namespace.
func (c *purging) Applied() { c.unlock() }

// Durable drops these answers.
func (c *purging) Durable() {
	for _, id := range c.changed {
		c.readersLock.changed(Change{ID: id})
	}
}

// listing removes the namespace's listing, or the entry's row and copy.
func (p *purge) listing(context.Context) error {
	unlock := p.copies.lock(p.of.Namespace)
	defer unlock()
	change := &purging{readersLock: p.pending.readers, changed: []ID{{Namespace: p.of.Namespace}}, unlock: unlock}
	if p.of.Key == "" {
		change.ChangeFunc = func(tx *store.Tx) error {
			dropListing(tx, p.of.Namespace)
			p.Trust.note(p.of.Namespace, Suspect{}) // a person gives up what upstream has lost
			return nil
		}
		return p.store.Update(change)
	}
	past, err := p.copies.readHead(p.of)
	if err != nil || past.version > p.upTo { // guard 13.41
		return err
	}
	forget, err := p.copies.forget(p.of)
	if err != nil {
		return err
	}
	newest, err := p.copies.last(p.of)
	if err != nil {
		return err
	}
	change.changed = append(change.changed, p.of)
	change.ChangeFunc = func(tx *store.Tx) error {
		if p.pending.isPending(p.of) {
			return nil // the write is based on the copy
		}
		if newest.version <= p.upTo {
			p.copies.dropNewest(tx, p.of)
		}
		if forget(tx); past.kept {
			p.done.Copies++
		}
		return nil
	}
	return p.store.Update(change)
}

// copiesAndVersions removes the namespace's copies, and the versions.
func (p *purge) copiesAndVersions(ctx context.Context) error {
	copied := &rangeRemoval{copies: p.copies, byHand: true, old: p.takes, prefix: record.Within(record.SettledPrefix, p.of.Namespace)}
	newest := &rangeRemoval{copies: p.copies, byHand: true, old: p.takes, prefix: record.Within(record.NewestPrefix, p.of.Namespace)}
	versions := &rangeRemoval{copies: p.copies, byHand: true, old: p.takes, prefix: record.Within(record.VersionPrefix, p.of.Namespace)}
	if p.of.Key != "" {
		versions.prefix = record.VersionsOf(p.of)
	} else if err := copied.run(ctx); err != nil {
		return err
	} else if err := newest.run(ctx); err != nil {
		return err
	}
	err := versions.run(ctx)
	p.done.Copies += copied.records
	p.done.Versions += versions.records
	return err
}

// losses removes the versions that are lost or gone.
func (p *purge) losses(ctx context.Context) error {
	for some := range slices.Chunk(p.copies.losses.under(p.covers), purgedAtOnce) {
		var goes []lostVersion
		for _, one := range some {
			v, ok, err := readVersion(p.store.DB(), one.ID, one.seq)
			if err = errors.Join(ignoreDamage(err), ctx.Err()); err != nil {
				return err
			}
			if one.seq <= p.until(!ok || v.Op == Put && !v.Shown) {
				one.Apart = true // the version goes, too
				goes = append(goes, one)
			}
		}
		err := p.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			p.copies.removals.Add(1)
			for i := range goes {
				p.copies.losses.remove(tx, &goes[i])
			}
			return nil
		}))
		if err != nil {
			return err
		}
		p.done.Versions += len(goes)
	}
	return nil
}

// left removes the checksums of what requests may have left upstream of entries with nothing pending. That something may
// be there stays known: what comes of it is not another host's later state.
func (p *purge) left(ctx context.Context) error {
	prefix := record.Within(record.LeftPrefix, p.of.Namespace)
	var keys [][]byte
	err := store.Each(p.store.DB(), prefix, record.After(prefix), func(key, _ []byte) error {
		id, err := record.ParseEntryKey(record.LeftPrefix, key)
		if err == nil && p.covers(id) {
			keys = append(keys, bytes.Clone(key))
		}
		return errors.Join(err, ctx.Err())
	})
	for chunk := range slices.Chunk(keys, purgedAtOnce) {
		if err == nil {
			err = p.store.Update(store.ChangeFunc(func(tx *store.Tx) error { return p.forgetLeft(tx, chunk) }))
		}
	}
	return err
}

func (p *purge) forgetLeft(tx *store.Tx, keys [][]byte) error {
	for _, key := range keys {
		id, err := record.ParseEntryKey(record.LeftPrefix, key)
		if err != nil {
			return err
		}
		if !p.pending.isPending(id) {
			tx.Set(key, record.EncodeLeft(key, nil)) // guard 17.69
		}
	}
	return nil
}

func (p *purge) deadLetters(ctx context.Context) error {
	var seqs []uint64
	err := p.use(func() error {
		return store.ScanDead(p.store.DB(), 0, func(l *record.Dead) error {
			if p.covers(l.ID) && l.Seq <= p.upTo {
				seqs = append(seqs, l.Seq)
			}
			return ctx.Err()
		})
	})
	for _, seq := range seqs {
		if err = errors.Join(err, ctx.Err()); err != nil {
			break
		}
		switch err = p.Discard(seq); {
		case err == nil:
			p.done.DeadLetters++
		case errors.Is(err, ErrNoDeadLetter): // somebody has just retried or discarded it
			err = nil
		}
	}
	return err
}

func (p *purge) receipts(ctx context.Context) error {
	from, to := record.GenerationKey(0), record.After([]byte(record.ReceiptPrefix))
	for more := true; more; {
		var keys [][]byte
		err := store.Each(p.store.DB(), from, to, func(key, value []byte) error {
			if len(keys) == purgedAtOnce {
				from = bytes.Clone(key)
				return errEnough
			}
			if body, err := record.Unseal(key, value); err == nil && p.ofReceipt(key, body) {
				keys = append(keys, bytes.Clone(key))
			}
			return ctx.Err()
		})
		if more = errors.Is(err, errEnough); err != nil && !more {
			return err
		}
		err = p.store.Update(store.ChangeFunc(func(tx *store.Tx) error {
			p.pending.receipts.remove(tx, keys)
			return nil
		}))
		if err != nil {
			return err
		}
		p.done.Receipts += len(keys)
	}
	return nil
}

func (p *purge) ofReceipt(key, body []byte) bool {
	_, seq, err := record.ParseReceiptKey(key)
	if err != nil || seq > p.last {
		return false
	}
	if seq == 0 {
		r, of, err := record.DecodeRequest(body)
		return err == nil && p.covers(r.ID) && of <= p.until(r.Op == Put)
	}
	r, err := record.DecodeReceipt(seq, body)
	return err == nil && p.covers(r.ID) && seq <= p.until(r.Op == Put)
}

// takes reports whether the purge removes a copy or a version that nothing needs. Damaged ones go.
func (p *purge) takes(key, sealed []byte) bool {
	body, err := record.Unseal(key, sealed)
	if err != nil {
		return true
	}
	if isVersion(key) {
		return p.ofVersion(key, body)
	}
	return p.ofCopy(key, body)
}

func (p *purge) ofVersion(key, body []byte) bool {
	_, seq, err := record.ParseVersionKey(key)
	return err == nil && seq <= p.until(record.IsPut(body))
}

func (p *purge) ofCopy(_, body []byte) bool {
	_, _, version, err := record.DecodeSettled(body)
	return err == nil && version <= p.upTo
}

// until returns the last number that goes, of this journal's puts or of all else: the purge's own deletes go,
// and what upstream has shown since upTo, for that may be what is purged.
func (p *purge) until(put bool) uint64 {
	if put {
		return p.upTo // guard 13.40
	}
	return p.last
}

// spans returns the ranges of keys that may hold records of the entry or the namespace.
func (p *purge) spans() (spans []store.Span) {
	for _, kind := range record.Kinds {
		from, to, some := kind.Of(p.of)
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
