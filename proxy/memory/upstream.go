package memory

import (
	"context"
	"time"

	"github.com/botwired/botwired/journal"
)

// Upstream answers reads of entries and listings that are not known here. An error with a method
// RetryAfter() time.Duration means that upstream could not be asked, or gave no usable answer. If the
// error also has a method Answer() (status int, body []byte), Answer returns upstream's own answer, for
// a caller without a local one. With waitOutOutage, a call waits until a short outage is over.
type Upstream interface {
	// Get returns nil without an error if upstream does not hold the entry.
	Get(ctx context.Context, id journal.ID, waitOutOutage bool) (*journal.Observation, error)
	// List returns all keys that upstream can list. complete says that upstream has no more.
	List(ctx context.Context, namespace string, waitOutOutage bool) (rows []journal.Row, complete bool, err error)
	// Patience returns how long a caller without another answer waits for upstream's answer about an
	// entry or, without a key, a listing. The request goes on after that.
	Patience(id journal.ID) time.Duration
	// TooLong returns the error for a caller that has waited as long as Patience has returned.
	TooLong() error
}

// Flusher sends pending writes upstream.
type Flusher interface {
	// Flush waits until the writes acknowledged before the call are settled or dead: those of one namespace,
	// or with "" all. When ctx ends first, it returns ctx's error and the number of pending ones.
	Flush(ctx context.Context, namespace string) (settled, dead, pending int, err error)
	// Attempts returns the failed attempts at an entry's pending write since the last success, the last
	// failure, and when the next attempt is due.
	Attempts(id journal.ID) (count int, last string, next time.Time)
	// Paused returns why upstream does not accept a namespace's writes; empty if it does.
	Paused(namespace string) string
	Full(namespace string) string
	// Waits returns why none of a namespace's writes is sent now, and when the wait ends; the zero time
	// if that is unknown. why is empty if the writes wait only for their linger.
	Waits(namespace string) (why string, until time.Time)
	// EntryWaits returns why an entry's pending write is not sent now, and when the wait ends: see
	// Waits.
	EntryWaits(id journal.ID) (why string, until time.Time)
	// TryNow ends the timed waits of a namespace, or with "" of all.
	TryNow(namespace string)
	// Drop turns an entry's pending write into a dead letter. seq 0 means any write. The error is
	// [journal.ErrNotPending] if there is no such write.
	Drop(ctx context.Context, id journal.ID, seq uint64) (journal.Write, error)
	// Await sends an acknowledged write at once, and waits until it, or a newer write to its entry, has
	// settled. It returns false if ctx ends first or the write is dead.
	Await(ctx context.Context, id journal.ID, seq uint64) (settled bool)
	// Confirm does the same for a caller that is answered with what upstream says, and does not wait if upstream
	// is known not to answer in time. With itself, a newer write that has settled does not count. The error is
	// [Answered] if upstream has refused the write, and any other one if the write is still pending. Without an error
	// and not settled, the write is no longer pending, and the journal knows why.
	Confirm(ctx context.Context, id journal.ID, seq uint64, itself bool) (settled bool, err error)
}

// View has upstream's last versions of all entries, in memory and without their values. A watch keeps
// the view up to date, and this daemon's own confirmed writes come ahead of the watch. Its methods may
// be called concurrently, and never wait.
//
// Its owner must call [Memory.VersionSeen] for each version once the view has it, best in the same
// critical section. Then nobody sees the version before the cache has dropped the older state (contract
// 7).
//
// Upstream lists from the view's versions, so no listing is newer than the view.
type View interface {
	// CaughtUp returns asOf, the last time up to which the view has missed nothing, and since, when its
	// current span without a gap began. ok says that the span goes on. Then the view has a change
	// within milliseconds, and at the latest at the next check of the watch. Its owner
	// was told of all that upstream held at since, and of all later changes.
	CaughtUp() (asOf, since time.Time, ok bool)
	// Entry returns what upstream holds of an entry as a row of a listing. The row's Origin has At, and
	// Seq if this host wrote the version. If upstream holds a delete's tombstone, present is false and
	// the row has the tombstone's UpdatedAt; without a tombstone, UpdatedAt is 0. known is false until
	// the view has been read once, and stays true when the watch breaks.
	Entry(id journal.ID) (row journal.Row, present, known bool)
	// Newest returns up to most rows of a namespace, newest first, and how many there are. For known see
	// Entry.
	Newest(namespace string, most int) (rows []journal.Row, total int, known bool)
}
