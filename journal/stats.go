package journal

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/pending"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

// Stats summarizes a journal.
type Stats struct {
	Pending      int     // entries with a pending write
	PendingBytes int64   // as the budget counts them
	OldestSince  float64 // Unix seconds; 0 if nothing is pending
	DeadLetters  int
	// OpenDeadLetters counts the refused writes that no later write has superseded.
	OpenDeadLetters int
	OpenIn          map[string]int // OpenDeadLetters by namespace, where there are any
	// OldestOpen is the sequence number of the oldest open dead letter; 0 if there is none.
	OldestOpen uint64
	DeadBytes  int64
	// Conflicts counts the versions that have lost a conflict between hosts, as far as they are marked so.
	Conflicts int
	LastSeq   uint64 // the highest sequence number assigned
	Receipts  int    // receipts that are kept
	// DamagedFiles counts the files found damaged since the journal was opened. The next start mends them.
	DamagedFiles int
	Rebuilding   bool // Pending and Namespaces are still growing
	Namespaces   map[string]NamespaceStats
}

// NamespaceStats is a namespace's part of [Stats].
type NamespaceStats struct {
	Pending      int
	PendingBytes int64
	OldestSince  float64
}

// SyncUnderWay returns how long the fsync in progress has taken so far; 0 if there is none. It returns
// at once, even while the disk hangs or after Close.
func SyncUnderWay(j *Journal) time.Duration { return j.store.SyncUnderWay() }

// OldestAge returns how long the oldest pending write has waited; 0 if there is none.
func (s Stats) OldestAge() time.Duration {
	if s.OldestSince == 0 {
		return 0
	}
	return age(s.OldestSince)
}

// OldestAge returns how long the namespace's oldest pending write has waited.
func (s NamespaceStats) OldestAge() time.Duration { return age(s.OldestSince) }

// Stats summarizes the journal by namespace. It may or may not include concurrent changes.
func (j *Journal) Stats() Stats {
	totals := j.store.Totals()
	st := Stats{
		DeadLetters: int(totals.Dead), DeadBytes: totals.DeadBytes, LastSeq: totals.Seq,
		Receipts: int(j.pending.receipts.kept()), DamagedFiles: j.store.DamagedFiles(),
		Rebuilding: j.pending.rebuilding(), Namespaces: make(map[string]NamespaceStats),
	}
	j.dead.count(&st)
	st.Conflicts = j.copies.losses.count()
	for _, space := range j.pending.spaces("") {
		n := j.pending.summary(space)
		if _, twice := st.Namespaces[space.Name()]; twice || n.Pending == 0 {
			continue
		}
		st.Pending += n.Pending
		st.PendingBytes += n.PendingBytes
		if st.OldestSince == 0 || n.OldestSince < st.OldestSince {
			st.OldestSince = n.OldestSince
		}
		st.Namespaces[space.Name()] = n
	}
	return st
}

func (p *pendingSet) rebuilding() bool {
	p.readers.RLock()
	defer p.readers.RUnlock()
	return !p.index.Complete()
}

// summary describes a namespace. When the oldest entry has left, summary searches for the next oldest,
// but only now and then. Between searches, OldestSince may be a little too early.
func (p *pendingSet) summary(space *pending.Space) NamespaceStats {
	p.searching.Lock()
	defer p.searching.Unlock()
	p.readers.RLock()
	_, exact := space.Oldest()
	p.readers.RUnlock()
	if began := time.Now(); !exact && p.searchPace.Ready(began) {
		p.findOldest(space)
		p.searchPace.Took(time.Since(began), time.Now())
	}
	p.readers.RLock()
	defer p.readers.RUnlock()
	since, _ := space.Oldest()
	return NamespaceStats{
		Pending: space.Len(), OldestSince: since,
		PendingBytes: space.Bytes() + int64(space.Len())*(entryMemory-record.Overhead),
	}
}

// findOldest searches a namespace. It takes the readers' lock for one chunk at a time.
func (p *pendingSet) findOldest(space *pending.Space) {
	p.readers.Lock()
	search := space.NewSearch()
	p.readers.Unlock()
	for done := false; !done; { // a waiting writer goes before the next step
		p.readers.RLock()
		done = search.Step(walkChunk) // guard 6.8
		p.readers.RUnlock()
	}
}

// Holdings counts the records that a journal keeps from one upstream, or for it.
type Holdings struct {
	Pending     int  // entries with a pending write
	DeadLetters int  // refused writes
	Copies      bool // settled copies, listings, or what requests may have left upstream
}

// Holdings reads the store. It works before [Journal.Run].
func (j *Journal) Holdings() (h Holdings, err error) {
	if err := j.store.Acquire(); err != nil {
		return h, err
	}
	defer j.store.Release()
	snapshot := j.store.Snapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	if h, err = holdingsOf(snapshot); err != nil {
		return h, refusedStart(j.opts.Dir, store.Classify(err))
	}
	return h, nil
}

func holdingsOf(r pebble.Reader) (h Holdings, err error) {
	found, err := store.Count(r, func(record.ID, record.Pending) error { return nil })
	h.Pending, h.DeadLetters = int(found.Pending), int(found.Dead)
	for _, prefix := range []string{record.SettledPrefix, record.HeaderPrefix, record.RowPrefix, record.NewestPrefix, record.LeftPrefix} {
		if err == nil && !h.Copies {
			h.Copies, err = store.HoldsAny(r, []byte(prefix))
			if prefix != record.LeftPrefix && store.IsDamage(err) {
				h.Copies, err = true, nil
			}
		}
	}
	return h, err
}
