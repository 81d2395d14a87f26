package journal

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
	"github.com/botwired/botwired/journal/queue"
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
	Namespaces   map[string]queue.NamespaceStats
}

// SyncUnderWay returns how long the fsync in progress has taken so far; 0 if there is none. It returns
// at once, even while the disk hangs or after Close.
func SyncUnderWay(j *Journal) time.Duration { return j.store.SyncUnderWay() }

// OldestAge returns how long the oldest pending write has waited; 0 if there is none.
func (s Stats) OldestAge() time.Duration {
	if s.OldestSince == 0 {
		return 0
	}
	return store.Age(s.OldestSince)
}

// Stats summarizes the journal by namespace. It may or may not include concurrent changes.
func (j *Journal) Stats() Stats {
	totals := j.store.Totals()
	st := Stats{
		DeadLetters: int(totals.Dead), DeadBytes: totals.DeadBytes, LastSeq: totals.Seq,
		Receipts: int(j.queue.ReceiptsKept()), DamagedFiles: j.store.DamagedFiles(),
		Rebuilding: j.queue.Rebuilding(),
	}
	st.OpenDeadLetters, st.OpenIn, st.OldestOpen = j.queue.Letters.Open()
	st.Conflicts = j.entries.Conflicts()
	st.Namespaces = j.queue.Summaries()
	for _, n := range st.Namespaces {
		st.Pending += n.Pending
		st.PendingBytes += n.PendingBytes
		if st.OldestSince == 0 || n.OldestSince < st.OldestSince {
			st.OldestSince = n.OldestSince
		}
	}
	return st
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
