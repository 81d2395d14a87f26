package upstream

import (
	"context"
	"time"

	"github.com/botwired/botwired/journal"
)

// Backend is an opened engine with everything that it can do: upstream's data reach the daemon only
// through it. A nil field says only that the engine lacks this ability. Lint wants all fields in a
// literal: an engine names what it lacks, and a decorator that translates names or values forgets none.
//
//exhaustruct:enforce
type Backend struct {
	Engine
	// Host names this daemon in the [Writer] of its writes; empty if the engine stores no writer.
	Host string
	// View follows the changes of all entries; nil if the engine cannot tell of changes.
	View View
	// Revisions returns the versions of an entry that upstream keeps, newest first, with their values and
	// with tombstones. Errors are *[Error]. It is nil if upstream keeps only the last version.
	Revisions func(ctx context.Context, id journal.ID) ([]Version, error)
	// Purge removes, of each deleted entry of a namespace, or of one if the ID has a key, all versions
	// before its tombstone, and what is left of them in files of this process. It is nil if the engine
	// knows of none.
	Purge func(ctx context.Context, of journal.ID) error
}

// View has the last versions of all entries in memory, without their values. Package proxy/memory says
// in its View what CaughtUp, Entry and Newest promise. Methods may be called concurrently, and never wait.
type View interface {
	CaughtUp() (asOf, since time.Time, ok bool)
	Entry(id journal.ID) (row journal.Row, present, known bool)
	Newest(namespace string, most int) (rows []journal.Row, total int, known bool)
	// NotBefore returns a time in Unix seconds that a new write to an entry must be later than: see
	// [journal.Options].
	NotBefore(id journal.ID) float64
	// Follow makes changed the function that is called for each version that becomes known from now on,
	// this host's or another's, in the order of an entry's revisions. The version is without its value.
	// Readers of the view wait until changed returns, and then see the version. So changed must be
	// quick, and must not call the engine.
	Follow(changed func(id journal.ID, now Version))
	// Usable makes usable the function that is called each time that upstream may be asked again, after it could not
	// be used: writes that wait for a time need not wait for it. usable must not call the engine.
	Usable(usable func())
	// State describes the view and what it watches.
	State() WatchState
	// Accept makes the engine go on with upstream as it is now, if State gives a reason as Lost. With
	// restores, the engine deletes there again what it has seen deleted later. An error says that the
	// decision could not be saved; then the engine goes on refusing requests.
	Accept(restores bool) error
}

// WatchState describes a [View] for the status and for people.
type WatchState struct {
	Bucket   string // the name of what is watched
	Server   string // the connected server; "" if there is none
	Lost     string // why the engine asks upstream for nothing until [View] accepts; "" if it asks
	Refused  string // why no request can be made, if what is watched cannot be used; "" if it can
	CaughtUp bool
	Since    time.Time // when CaughtUp last changed
	Reason   string    // why CaughtUp is false
	Entries  int
	Bytes    int64 // approximate size in memory
}
