package queue

import (
	"time"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// NamespaceStats is a namespace's part of the journal's Stats.
type NamespaceStats struct {
	Pending      int
	PendingBytes int64
	OldestSince  float64
}

// OldestAge returns how long the namespace's oldest pending write has waited.
func (s NamespaceStats) OldestAge() time.Duration { return store.Age(s.OldestSince) }

// Summaries describes the namespaces with pending writes.
func (q *Queue) Summaries() map[string]NamespaceStats {
	all := make(map[string]NamespaceStats)
	for _, space := range q.spaces("") {
		n := q.summary(space)
		if _, twice := all[space.Name()]; !twice && n.Pending > 0 {
			all[space.Name()] = n
		}
	}
	return all
}

// Rebuilding reports whether the index does not know every pending write yet.
func (q *Queue) Rebuilding() bool {
	q.Readers.RLock()
	defer q.Readers.RUnlock()
	return !q.index.Complete()
}

// summary describes a namespace. When the oldest entry has left, summary searches for the next oldest,
// but only now and then. Between searches, OldestSince may be a little too early.
func (q *Queue) summary(space *pending.Space) NamespaceStats {
	q.searching.Lock()
	defer q.searching.Unlock()
	q.Readers.RLock()
	_, exact := space.Oldest()
	q.Readers.RUnlock()
	if began := time.Now(); !exact && q.searchPace.Ready(began) {
		q.findOldest(space)
		q.searchPace.Took(time.Since(began), time.Now())
	}
	q.Readers.RLock()
	defer q.Readers.RUnlock()
	since, _ := space.Oldest()
	return NamespaceStats{
		Pending: space.Len(), OldestSince: since,
		PendingBytes: space.Bytes() + int64(space.Len())*(EntryBytes-record.Overhead),
	}
}

// findOldest searches a namespace. It takes the readers' lock for one chunk at a time.
func (q *Queue) findOldest(space *pending.Space) {
	q.Readers.Lock()
	search := space.NewSearch()
	q.Readers.Unlock()
	for done := false; !done; { // a waiting writer goes before the next step
		q.Readers.RLock()
		done = search.Step(walkChunk) // guard 6.8
		q.Readers.RUnlock()
	}
}
