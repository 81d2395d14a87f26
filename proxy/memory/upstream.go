package memory

import (
	"context"
	"time"

	"github.com/botwired/botwired/internal/identity"
	"github.com/botwired/botwired/journal"
)

// Upstream is asked for what is not known here. An error that has a method
// RetryAfter() time.Duration says that upstream cannot be asked now. If it also has a
// method Answer() (status int, body []byte), upstream has answered with that, and a
// caller for whom nothing is known here gets that answer. With waitOutOutage, a call
// waits until a short outage is over.
type Upstream interface {
	// Get returns nil without an error when upstream does not hold the entry.
	Get(ctx context.Context, id journal.ID, waitOutOutage bool) (*journal.Observation, error)
	// List returns all keys that upstream can list, and whether upstream has no more.
	List(ctx context.Context, namespace string, waitOutOutage bool) (rows []journal.Row, complete bool, err error)
	// Patience returns how long a caller to whom nothing else can be given waits for an
	// answer about an entry or, without a key, a listing. The request goes on.
	Patience(id journal.ID) time.Duration
	// TooLong returns the error for a caller who has waited so long.
	TooLong() error
}

// Flusher carries pending writes upstream.
type Flusher interface {
	// Flush returns when the writes acknowledged before the call, of one namespace or
	// with "" of all, are settled or dead, or with ctx's error and what is left.
	Flush(ctx context.Context, namespace string) (settled, dead, pending int, err error)
	// Attempts returns how often an entry's pending write was tried since an attempt last
	// went well, why the last attempt failed, and when the next is due.
	Attempts(id journal.ID) (count int, last string, next time.Time)
	// Paused returns why upstream does not let a namespace's writes in; empty if it does.
	Paused(namespace string) string
	// Waits returns why nothing of a namespace is sent now, and until when; a time of zero
	// is not known. Why is empty if the namespace waits for nothing but its linger.
	Waits(namespace string) (why string, until time.Time)
	// EntryWaits returns the same for an entry.
	EntryWaits(id journal.ID) (why string, until time.Time)
	// TryNow ends the waits of a namespace, or with "" of all, that only time would end.
	TryNow(namespace string)
	// Drop makes an entry's pending write a dead letter. A number of 0 is any. Its error is
	// [journal.ErrNotPending] if there is no such write.
	Drop(ctx context.Context, id journal.ID, seq uint64) (journal.Write, error)
	// Await has an acknowledged write sent at once and returns once it, or a newer one to
	// its entry, has settled. It returns false when ctx ends first or the write is dead.
	Await(ctx context.Context, id journal.ID, seq uint64) (settled bool)
	// WriteThrough has upstream carry a write out, journals the write then, and returns
	// whether it has settled. When the entry's turn has come, ready decides whether to go on,
	// and returns the write's If. The write's number is 0 if the journal had no room for it.
	// Errors of its own have a method WriteStatus() int.
	WriteThrough(ctx context.Context, w journal.NewWrite, ready func() (unchanged func(newest uint64) bool, err error)) (
		written journal.Write, settled bool, err error)
}

// Identity notices that time has passed without the daemon, or that its data directory is a
// copy: see [identity.Watch].
type Identity interface {
	// Stands reports whether something confirmed at a time may still be called fresh.
	Stands(confirmedAt time.Time) bool
	// Epoch returns a number that changes when what was asked before may be old.
	Epoch() uint64
	// State describes it.
	State() identity.State
}

// undoubted is the identity of a server that has nobody to doubt it.
type undoubted struct{}

func (undoubted) Stands(time.Time) bool { return true }

func (undoubted) Epoch() uint64 { return 0 }

func (undoubted) State() identity.State { return identity.State{Start: identity.Same} }

// View is what upstream holds of all entries, without their values, in memory: a watch keeps it up
// to date. It is ahead of the watch by this daemon's own confirmed writes. Its methods may be
// called concurrently, and none waits.
//
// [Server.VersionSeen] is to be called for each version that it takes in, once it shows that: best
// inside its critical section, so that nobody sees the version before the cache has dropped the
// older state (contract 7).
//
// Upstream lists what the view shows: a listing that upstream answers has nothing that the view does
// not have, or has had. So no listing is newer than it.
type View interface {
	// CaughtUp returns the last moment up to which the view is known to have missed nothing, since
	// when that has been so without a gap, and whether it still is. While it is, a
	// change upstream shows here within milliseconds, and at the latest when the watch is next
	// checked. All that upstream held at since, and all that changed later, has been told by the
	// engine's OnChange.
	CaughtUp() (asOf, since time.Time, ok bool)
	// Entry returns what upstream holds of an entry as a row of a listing, whose Origin has At,
	// and Seq if the version is a write of this host's. If upstream holds the tombstone of a
	// delete, present is false and the row has its UpdatedAt, which is 0 if there is none. known is
	// false until the view has been read once; it stays true when the watch breaks.
	Entry(id journal.ID) (row journal.Row, present, known bool)
	// Newest returns up to most rows of a namespace, the newest first, and how many it has. See
	// Entry for known.
	Newest(namespace string, most int) (rows []journal.Row, total int, known bool)
}
