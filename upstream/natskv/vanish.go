package natskv

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/botwired/botwired/internal/tasks"
	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// walkStep bounds the rows that a walk visits under one hold of the lock.
const walkStep = 1000

// walk visits all rows. A row that changes meanwhile may be visited twice.
func (x *index) walk(visit func(id journal.ID, r *row)) {
	x.mu.RLock()
	names := make([]string, 0, len(x.namespaces))
	for name := range x.namespaces {
		names = append(names, name)
	}
	x.mu.RUnlock()
	for _, name := range names {
		for cursor, done := 0, false; !done; {
			cursor, done = x.walkPart(name, cursor, visit)
		}
	}
}

func (x *index) walkPart(name string, cursor int, visit func(id journal.ID, r *row)) (next int, done bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ns := x.namespaces[name]
	if ns == nil {
		return 0, true
	}
	return ns.rows.Walk(cursor, walkStep, func(r *row) {
		visit(journal.ID{Namespace: name, Key: r.Key()}, r)
	})
}

// vanished removes the rows that were not delivered while the whole bucket was read: upstream has
// removed them without a trace. shown has the delivered revisions in ascending order, complete up to
// upTo. vanished reports the removed entries as deleted, except tombstones.
func (x *index) vanished(shown []uint64, upTo uint64) int {
	var gone []expiry
	x.walk(func(id journal.ID, r *row) {
		if _, found := slices.BinarySearch(shown, r.revision); !found && r.revision <= upTo {
			gone = append(gone, expiry{ID: id, revision: r.revision})
		}
	})
	for _, g := range gone {
		x.forget(g.ID, g.revision, upTo)
	}
	return len(gone)
}

// wentBack reports whether the bucket, once wholly read, lacks the index's version of an entry that it
// shows in an earlier version: see vanished.
func (x *index) wentBack(earlier []journal.ID, shown []uint64, upTo uint64) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.ContainsFunc(earlier, func(id journal.ID) bool {
		r := x.find(id)
		if r == nil {
			return false
		}
		_, found := slices.BinarySearch(shown, r.revision)
		return !found && r.revision <= upTo
	})
}

// shownVersion returns an entry's last version without its value, if the bucket has shown it when it was wholly
// read: see vanished.
func (x *index) shownVersion(id journal.ID, shown []uint64, upTo uint64) upstream.Version {
	v, _ := x.get(id)
	if _, found := slices.BinarySearch(shown, v.Revision); !found && v.Revision <= upTo {
		return upstream.Version{}
	}
	return v
}

// tellMissing reports the entries as deleted that an earlier index has, and this one lacks.
func (x *index) tellMissing(before *index, upTo uint64) {
	before.walk(func(id journal.ID, r *row) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.find(id) == nil && !r.deleted() {
			x.tell(id, goneSince(r, upTo))
		}
	})
}

// lostDeletes returns the tombstones of an earlier index in whose place this one has an older version.
// Their revisions are those of the older versions.
func (x *index) lostDeletes(before *index) (lost []tombstone) {
	for _, t := range before.tombstones(math.MaxInt64) {
		if now, _ := x.get(t.ID); now.Present() && now.WrittenAt < t.WrittenAt {
			t.Revision = now.Revision
			lost = append(lost, t)
		}
	}
	return lost
}

// deleteAgain gives the deletes back with their own times, unless another write has come first.
func (w *watch) deleteAgain(ctx context.Context, lost []tombstone) {
	w.log.Warn("the bucket has lost deletes: botwired deletes these entries again", "entries", len(lost))
	said := false
	for _, t := range lost {
		for ctx.Err() == nil {
			err := w.put(ctx, encode(subjectOf(w.bucket, t.ID), t.Version), t)
			if err == nil || isOvertaken(err) {
				break
			}
			if !said {
				w.log.Warn("an entry cannot be deleted again now: botwired tries again every second", "entry", t.String(), "error", err)
				said = true
			}
			_ = tasks.Sleep(ctx, checkEvery)
		}
	}
}

// forget removes an entry's row if it has the given revision. If the row is not a tombstone, forget
// reports the entry as deleted, with the revision upTo.
func (x *index) forget(id journal.ID, revision, upTo uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.find(id)
	if r == nil || r.revision != revision {
		return
	}
	ns := x.namespaces[id.Namespace]
	ns.rows.Delete(id.Key)
	x.subjects--
	x.keys -= int64(len(id.Key))
	if ns.rows.Len() == 0 {
		delete(x.namespaces, id.Namespace)
	}
	if !r.deleted() {
		x.hide(ns, r)
		x.tell(id, goneSince(r, upTo))
	}
}

// goneSince returns the version that reports a vanished entry as deleted. Its time is the smallest one
// later than the row's.
func goneSince(r *row, revision uint64) upstream.Version {
	return upstream.Version{Revision: revision, Deleted: true, WrittenAt: seconds(r.written + 1)}
}

// expires records when upstream removes a version, and the entry with it.
func (x *index) expires(id journal.ID, revision uint64, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expiring = append(x.expiring, expiry{id, revision, at})
}

// expire removes the versions whose time has come.
func (x *index) expire(now time.Time) {
	x.mu.Lock()
	var due []expiry
	x.expiring = slices.DeleteFunc(x.expiring, func(e expiry) bool {
		if now.Before(e.at) {
			return false
		}
		due = append(due, e)
		return true
	})
	x.mu.Unlock()
	for _, e := range due {
		x.forget(e.ID, e.revision, e.revision)
	}
}

// mayVanish counts the rows that upstream may have removed by itself.
func (x *index) mayVanish(now time.Time) uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	due := make(map[journal.ID]bool) // a version is in expiring twice if the bucket was read twice
	for _, e := range x.expiring {
		if r := x.find(e.ID); r != nil && r.revision == e.revision && !now.Before(e.at.Add(-2*expiryMargin)) {
			due[e.ID] = true
		}
	}
	return uint64(len(due))
}

// tombstones returns the tombstones written before a time, in microseconds since 1970, that have no
// TTL.
func (x *index) tombstones(before int64) []tombstone {
	marked := make(map[expiry]bool)
	x.mu.RLock()
	for _, e := range x.expiring {
		marked[expiry{ID: e.ID, revision: e.revision}] = true
	}
	x.mu.RUnlock()
	var old []tombstone
	x.walk(func(id journal.ID, r *row) {
		if r.deleted() && r.written < before && !marked[expiry{ID: id, revision: r.revision}] {
			old = append(old, tombstone{id, x.version(r)})
		}
	})
	return old
}

type tombstone struct {
	journal.ID
	upstream.Version
}
