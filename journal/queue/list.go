package queue

import (
	"cmp"
	"math"
	"slices"

	"github.com/botwired/botwired/journal/internal/pending"
)

// walkChunk is the number of entries that a walk visits under one hold of the readers' lock. It bounds
// how long writers wait.
const walkChunk = 512

// VisitPending calls visit for the pending writes of a namespace, in no particular order. It visits, at
// least once, every write that was acknowledged before the call and is still pending when VisitPending
// returns. An entry that is written meanwhile may be visited with both writes, the older one first.
// Writers do not wait for visit, but Close does: visit must not call the journal.
func (q *Queue) VisitPending(namespace string, visit func(Pending)) error {
	if err := q.store.Acquire(); err != nil {
		return err
	}
	defer q.store.Release()
	if err := q.FaultInSpace(namespace); err != nil {
		return err
	}
	if namespace == "" {
		return nil // no namespace has an empty name
	}
	for _, space := range q.spaces(namespace) {
		q.walk(space, visit)
	}
	return nil
}

// walk visits the entries of a namespace, a chunk under each hold of the readers' lock. If the
// namespace empties meanwhile and gets a new share of the index, walk misses only the new share. All
// its writes came later.
func (q *Queue) walk(space *pending.Space, visit func(Pending)) {
	var chunk []Pending
	for cursor, done := 0, false; !done; {
		q.Readers.RLock()
		chunk = slices.Grow(chunk, min(walkChunk, space.Len()))
		cursor, done = space.Walk(cursor, walkChunk, func(e *pending.Entry) { chunk = append(chunk, pendingOf(e)) }) // guard 6.7
		q.Readers.RUnlock()
		for _, w := range chunk {
			visit(w)
		}
		chunk = chunk[:0]
	}
}

func pendingOf(e *pending.Entry) Pending {
	v, _ := e.Visible()
	return Pending{
		ID: e.ID(), Seq: v.Seq, Op: v.Op, Bytes: int(v.Bytes), ListBytes: int(v.ListBytes),
		UpdatedAt: v.UpdatedAt, WrittenAt: v.WrittenAt, Since: v.Since, LosesTies: v.LosesTies,
	}
}

// PendingList returns up to limit pending writes, the longest waiting first, of one namespace or, with
// "", of all. During the rebuild of the index, the list may lack some.
func (q *Queue) PendingList(namespace string, limit int) []Pending {
	if limit <= 0 {
		return nil
	}
	var all []Pending
	last := math.Inf(1) // a write whose wait began later than this is not in the list
	cut := func() {
		slices.SortFunc(all, olderFirst)
		held := make(map[ID]bool, len(all)) // a walk may visit an entry twice
		all = slices.DeleteFunc(all, func(p Pending) bool {
			twice := held[p.ID]
			held[p.ID] = true
			return twice
		})
		if len(all) >= limit {
			all, last = all[:limit], all[limit-1].Since
		}
	}
	for _, space := range q.spaces(namespace) {
		q.walk(space, func(w Pending) {
			if w.Since > last {
				return
			}
			if all = append(all, w); len(all) >= 2*limit {
				cut()
			}
		})
	}
	cut()
	return all
}

func olderFirst(a, b Pending) int {
	return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Seq, b.Seq))
}

// spaces returns the share of one namespace or, with "", the shares of all namespaces with pending
// writes. A namespace may occur twice.
func (q *Queue) spaces(namespace string) (all []*pending.Space) {
	add := func(s *pending.Space) { all = append(all, s) }
	for cursor, done := 0, false; !done; {
		q.Readers.RLock()
		if namespace == "" {
			cursor, done = q.index.WalkSpaces(cursor, walkChunk, add)
		} else if done = true; q.index.Space(namespace) != nil {
			add(q.index.Space(namespace))
		}
		q.Readers.RUnlock()
	}
	return all
}
