package entries

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Changed is an entry that was written after a time, as its versions tell.
type Changed struct {
	ID
	Now Past // the newest version in force, without its state
	// Then is the version in force at the time, without its state; a delete if the entry did not exist. It
	// counts only if Gap is empty.
	Then Past
	Gap  Gap
	// Authors are the authors of this journal's writes since then, up to authorsKept, and Elsewhere says
	// that another host has written since. A version that shows the state before it again does not count.
	Authors   []string
	Elsewhere bool
	// Seq is the number of the newest such version.
	Seq uint64
	// MayBeNew says, beside a Gap, that nothing known here speaks against it that the entry was created since: all these
	// versions are puts, or it is deleted again. Unseen says that neither a copy nor a listing shows that upstream has held it.
	MayBeNew, Unseen bool
}

// Same reports whether the entry is as it was.
func (c *Changed) Same() bool { return c.Gap == "" && sameState(&c.Now, &c.Then) }

// Gap says why it is not known what an entry was at a time.
type Gap string

// The reasons.
const (
	GapUnread    Gap = "unread"    // this journal has not seen what the first write since then replaced
	GapForgotten Gap = "forgotten" // the versions of then were removed for room, or were never here
	GapDamaged   Gap = "damaged"   // a version is damaged
	GapUnsealed  Gap = "unsealed"  // it is from before the namespace was sealed: see [History.Before]
)

// authorsKept bounds the authors of one entry.
const authorsKept = 100

func sameState(a, b *Past) bool { return a.Op == b.Op && a.Value == b.Value }

// ChangedSince is what an undo of a namespace asks. It visits, in the order of the versions' keys, the entries of a
// namespace that follow after and that were written after a time, in Unix seconds; but not those of which no version is
// left. A walk begins after "". It reads the values of one entry at a time, from one snapshot; asOf is the number of the
// newest version in it. visit returns false to stop.
//
// The versions of an entry are in the order of their numbers: a clock that was set back changes nothing
// about that. In force at the time was the newest version that says it was written by then.
func (h *History) ChangedSince(
	ctx context.Context, namespace, after string, at float64, visit func(asOf uint64, c *Changed) (more bool, err error),
) (asOf uint64, err error) {
	if err := h.entries.store.Acquire(); err != nil {
		return 0, err
	}
	defer h.entries.store.Release()
	asOf = h.entries.store.Totals().Seq
	if err := h.entries.store.AwaitDurable(); err != nil { // the snapshot then has all versions up to asOf
		return 0, err
	}
	r, err := h.rewind(namespace, record.Within(record.VersionPrefix, namespace), at)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	from := record.Within(record.VersionPrefix, namespace)
	if after != "" {
		from = record.After(record.VersionsOf(ID{Namespace: namespace, Key: after}))
	}
	for more := r.it.SeekGE(from); more; more = r.it.SeekGE(from) {
		id, _, err := record.ParseVersionKey(r.it.Key())
		if err != nil { // nobody reads its version
			from = append(slices.Clone(r.it.Key()), 0)
			continue
		}
		from = record.After(record.VersionsOf(id))
		c, changed, err := r.entry(id)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return asOf, err
		}
		if !changed {
			continue
		}
		if more, err := visit(asOf, &c); err != nil || !more {
			return asOf, err
		}
	}
	return asOf, errors.Join(r.it.Error(), h.entries.store.AwaitDurable())
}

// ChangedEntry returns what one entry was at a time; changed is false if it was not written since.
func (h *History) ChangedEntry(id ID, at float64) (c Changed, changed bool, err error) {
	if err := h.entries.store.Acquire(); err != nil {
		return c, false, err
	}
	defer h.entries.store.Release()
	r, err := h.rewind(id.Namespace, record.VersionsOf(id), at)
	if err != nil {
		return c, false, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if c, changed, err = r.entry(id); err != nil {
		return c, false, err
	}
	return c, changed, errors.Join(r.it.Error(), h.entries.store.AwaitDurable())
}

// rewind finds out what entries were at a time, from one snapshot.
type rewind struct {
	*History
	at       float64
	snapshot *pebble.Snapshot
	it       *pebble.Iterator // of versions
	waiting  *pebble.Iterator // of pending writes
	// renamed and renamedAt are the results of renamed for the namespace.
	renamed   uint64
	renamedAt float64
	named     namedVersions
}

func (h *History) rewind(namespace string, prefix []byte, at float64) (*rewind, error) {
	snapshot := h.entries.store.Snapshot()
	r := &rewind{History: h, at: at, snapshot: snapshot, named: namedVersions{reader: snapshot}}
	var err, pendingErr error
	r.it, err = snapshot.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: record.After(prefix)})
	waiting := record.PendingOfVersion(prefix)
	var renamedErr error
	r.renamed, r.renamedAt, renamedErr = renamed(snapshot, namespace)
	r.waiting, pendingErr = snapshot.NewIter(&pebble.IterOptions{LowerBound: waiting, UpperBound: record.After(waiting)})
	if err = errors.Join(err, pendingErr, renamedErr); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rewind) close() (err error) {
	for _, it := range []*pebble.Iterator{r.it, r.waiting} {
		if it != nil {
			err = errors.Join(err, it.Close())
		}
	}
	return errors.Join(err, r.snapshot.Close())
}

// entry goes back from the version in force, the newest first. It keeps at most three values.
func (r *rewind) entry(id ID) (c Changed, changed bool, err error) {
	inForce, waits, err := r.inForce(id)
	if err != nil {
		return c, false, err
	}
	var last Past // the version above; it was written after the time
	var known bool
	since := writtenSince{waits: waits}
	c.ID = id
	prefix := record.VersionsOf(id)
	follows := uint64(0) // the number of the version that must come next; 0 if any may
	for ok := r.it.SeekLT(record.After(prefix)); ok && !known && c.Gap == "" && isOf(r.it, prefix); ok = r.it.Prev() {
		v, err := decodePast(r.it.Key(), r.it.Value())
		switch {
		case store.IsDamage(err):
			c.Gap = GapDamaged
			continue
		case err != nil:
			return c, false, err
		}
		lost, ended, err := lossOf(r.snapshot, id, v.Seq)
		if err != nil {
			return c, false, err
		}
		since.apart = since.apart || lost.Apart
		switch {
		case lost.Apart: // guard 13.97
			continue // it was in force upstream, and never here
		case v.Seq > inForce && inForce != 0:
			continue // it was refused
		case ended && v.Seq < r.entries.forgotten.upTo.Load() && follows != v.Seq && v.Seq != inForce: // guard 13.98
			if c.Now.Seq != 0 { // what came after it may have been removed
				c.Gap = GapForgotten
			}
			continue
		case v.Seq <= r.renamed: // guard 23.43
			if c.Now.Seq == 0 {
				return c, false, r.it.Error() // nothing was written since
			}
			if known = r.at >= r.renamedAt; known {
				c.count(&last)
				c.Then = Past{ID: id, Op: Delete, WrittenAt: r.renamedAt} // the sealed namespace began empty
			} else {
				c.Gap = GapUnsealed
			}
			continue
		case follows != 0 && v.Seq != follows: // guard 13.60
			continue // shown while a write was pending; or the write is gone, and so is what came before it
		case follows == 0 && v.Seq != inForce:
			if dead, err := r.isDead(&v); err != nil || dead { // guard 13.61
				if err != nil {
					return c, false, err
				}
				continue
			}
		}
		if inForce = 0; c.Now.Seq == 0 {
			c.Now = v
		} else if !last.Shown || !sameState(&last, &v) {
			c.count(&last)
		}
		if last, follows = v, v.Follows; v.WrittenAt <= r.at {
			c.Then, known = v, true
			continue
		}
		if v.Op == Delete {
			replaced, err := r.isReplaced(&v)
			if err != nil {
				return c, false, err
			}
			since.deletes, since.deleted = true, since.deleted || !replaced && (!waits || v.Seq != c.Now.Seq)
		}
	}
	switch {
	case c.Now.Seq == 0, known && c.Then.Seq == c.Now.Seq:
		return c, false, r.it.Error()
	case known:
		return c, true, nil
	}
	c.count(&last)
	if c.Gap == "" && follows != 0 {
		c.Gap = GapForgotten
	}
	if c.Gap == "" {
		since.oldest = last
		err = r.first(&c, &since)
	}
	return c, true, err
}

func isOf(it *pebble.Iterator, prefix []byte) bool { return bytes.HasPrefix(it.Key(), prefix) }

// inForce returns the number of the version in force: that of the pending write, or of the settled copy.
// It returns 0 if there is neither: then it is the newest one that upstream has not refused.
func (r *rewind) inForce(id ID) (seq uint64, waits bool, err error) {
	prefix := record.PendingOf(id)
	if r.waiting.SeekLT(record.After(prefix)) && isOf(r.waiting, prefix) {
		_, seq, err := record.ParsePendingKey(r.waiting.Key())
		return seq, true, err
	}
	if err := r.waiting.Error(); err != nil {
		return 0, false, err
	}
	seq, err = r.named.of(id)
	return seq, false, err
}

// isDead reports whether a version is a write that upstream has refused, or that a person has dropped.
func (r *rewind) isDead(v *Past) (bool, error) {
	if v.Shown {
		return false, nil
	}
	state, err := r.state(&r.named, v.ID, v.Seq, false)
	return state == PastDead, err
}

// count notes who wrote a version.
func (c *Changed) count(v *Past) {
	c.Seq = max(c.Seq, v.Seq)
	if v.Shown {
		c.Elsewhere = true
	} else if !slices.Contains(c.Authors, v.Author) && len(c.Authors) < authorsKept {
		c.Authors = append(c.Authors, v.Author)
	}
}

// isReplaced reports whether a write was replaced before upstream had confirmed it, as far as its receipt is kept.
func (r *rewind) isReplaced(v *Past) (bool, error) {
	receipt, ok, err := r.entries.queue.Receipt(v.Seq)
	return ok && receipt.ID == v.ID && receipt.State == record.ReceiptSuperseded && receipt.By != 0, err
}

// writtenSince is what the versions since r.at say of an entry without an earlier one.
type writtenSince struct {
	oldest  Past
	waits   bool // the newest one is pending
	deletes bool // there are deletes
	deleted bool // one of them may have settled: a listing may lack the entry because of that
	apart   bool // another host's state was overwritten
}

// first decides what came before the oldest version that is kept. If upstream was last seen without the entry, that was
// the state, also if it was seen so before r.at; and so it was if upstream has created the entry since.
func (r *rewind) first(c *Changed, since *writtenSince) error {
	var o Observation
	kept, err := store.Get(r.snapshot, record.EntryKey(record.SettledPrefix, c.ID), func(body []byte) (err error) {
		o, _, _, err = record.DecodeSettled(body)
		return err
	})
	damaged := store.IsDamage(err)
	if err != nil && !damaged {
		return err
	}
	absentAt := o.AbsentAt
	if !kept && !damaged {
		h, listed, _, err := readListed(r.entries, r.snapshot, c.ID)
		if err != nil {
			return err
		}
		c.Unseen = !listed
		if h.Complete && !listed {
			absentAt = h.FetchedAt
		}
	}
	if c.Gap = GapUnread; r.Since() != 0 {
		c.Gap = GapForgotten
	}
	if r.Since() >= r.at { // guard 13.88
		return nil // an older version may have been removed, and a delete after it
	}
	c.MayBeNew = !since.deletes || c.Now.Op == Delete && since.oldest.Op == Put
	shown := r.entries.opts.Exact || o.Origin.At != 0 // then created_at is upstream's, and otherwise perhaps of this host's write
	created := shown && o.CreatedAt > r.at && c.MayBeNew
	older := shown && o.CreatedAt != 0 && o.CreatedAt <= r.at // guard 13.112
	// guard 13.111
	absent := absentAt > r.Since() && !since.deleted && (absentAt <= since.oldest.WrittenAt || !since.deletes) && !since.apart && !older // guard 13.89
	// It was created, and is gone again: had the fence seen another state, that would be lost.
	gone := since.deleted && !since.waits && c.MayBeNew && !since.apart
	if created || absent || gone {
		c.Then, c.Gap = Past{ID: c.ID, Op: Delete}, ""
	}
	return nil
}
