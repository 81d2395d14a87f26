package memory

import (
	"time"

	"github.com/botwired/botwired/journal"
)

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
