package memory

import (
	"errors"
	"math"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// While a view of upstream has caught up, no answer gets old: an answer holds until the view shows
// another version. Two things make sure that no answer is given as fresh after that.
//
// An answer is made in this order: take the generation of its key, look up the state here, ask the
// view whether it has caught up, look at the entry's version in the view, put the answer into the cache
// under that generation. The view's owner does it the other way round: show the version, and then
// advance the generation with [Server.VersionSeen]. So either the answer's look
// at the view came after the version was shown, and the answer is made of it or is outdated. Or
// the look came before, and so did the generation, which is an old one as soon as the version was
// told. The cache returns no answer of an old generation.
//
// An answer notes since when the view had caught up at that look. If the view breaks, the versions that
// it misses advance no generation, and the answer gets old from then on. When the view has caught up
// again, all of them have been told, and its span begins at another time: an answer from before is
// looked at once more.
//
// A state here may be newer than the view's: it has been read upstream ahead of the watch. Where the
// view does not even have a tombstone to compare it with, its own time counts. A listing never is: see
// [View]. The view tells since when it is complete, and may show more: so where it is broken, a
// listing that is younger than that time does not outdo it.

// upstreamView compares the local state with the state that upstream is known to hold.
type upstreamView struct {
	upstream View // nil if upstream does not tell of changes
	journal  *journal.Journal
}

// viewed is the answer for an entry after the local state was compared with upstream's version.
type viewed struct {
	item     *cache.Item // nil if nothing can be answered
	mayExist bool        // nothing is known except that upstream holds, or may hold, the entry
	present  bool        // a view that has caught up shows that upstream holds a value, which is not here
	deleted  bool        // the item is an absence that is later than a copy here: see dropDeleted
}

// merge lays upstream's version of an entry, as far as the view shows it, over a state and the
// answer that the cache has. The entry's generation was taken before the state was looked up.
func (c *upstreamView) merge(id journal.ID, state *journal.State, cached *cache.Item) viewed {
	byTime := func() viewed { return viewed{item: newest(id, state, cached), mayExist: state.Listed || state.InDoubt} }
	if c.upstream == nil || state.Seq != 0 {
		return byTime()
	}
	asOf, since, caughtUp := c.upstream.CaughtUp()
	row, present, known := c.upstream.Entry(id)
	if !known || state.InDoubt && !caughtUp || c.hasDataLoss(id.Namespace) {
		return byTime()
	}
	confirm := func(item cache.Item) viewed {
		item.ConfirmedAt, item.Checked = laterTime(item.ConfirmedAt, asOf), since.UnixNano()
		return viewed{item: &item}
	}
	kept, version := state.Kind == journal.Settled, micros(row.UpdatedAt)
	switch made, _ := entryItem(id, *state); {
	case present && kept && micros(state.UpdatedAt) >= version: // guard 7.36
		return confirm(made)
	case present && kept:
		return outdated(made)
	case present && !caughtUp && isAbsentSince(cached, asOf):
		return viewed{item: cached}
	case present:
		return viewed{mayExist: true, present: caughtUp}
	case kept && version != 0 && micros(state.UpdatedAt) > version, kept && version == 0 && made.ConfirmedAt.After(asOf):
		return viewed{item: &made} // newer than what the view shows
	// guard 17.34
	case kept && version == 0: // not even a tombstone: upstream may have lost the entry, and its list decides
		return outdated(made)
	case kept:
		absent := confirm(cache.Item{ConfirmedAt: asOf})
		absent.deleted = true
		return absent
	case isAbsentSince(cached, asOf):
		return confirm(*cached)
	}
	return confirm(cache.Item{ConfirmedAt: asOf})
}

// outdated marks an answer that upstream certainly or probably no longer holds. Its age is unknown: see
// [cache.Age].
func outdated(made cache.Item) viewed {
	made.ConfirmedAt, made.Outdated = time.Unix(0, 0), true
	return viewed{item: &made}
}

// dropDeleted drops an entry's copy if the view shows that the entry has been deleted since. A caller who
// answers that there is none drops the copy first: the copy would be an answer again, to a reader who is back
// behind the delete, once the view shows a value that upstream cannot be asked for, or after a
// restart (contract 7). The caller then looks again: the entry may have changed.
func (m *Memory) dropDeleted(id journal.ID) error {
	lease := m.cache.Lease(entryKey(id))
	defer lease.Release()
	state, err := m.journal.Lookup(id)
	if err != nil || !m.view.merge(id, &state, nil).deleted {
		return err
	}
	_, err = m.journal.Fill(id, nil, func() bool { return !lease.Revoked() })
	if errors.Is(err, journal.ErrChanged) {
		return nil
	}
	return err
}

// isAbsentSince returns true if upstream has said after a time that it does not hold the entry.
func isAbsentSince(cached *cache.Item, at time.Time) bool {
	return cached != nil && cached.Body == nil && cached.ConfirmedAt.After(at)
}

// confirmedAt returns when upstream was last known to hold an answer. holds says that it still does:
// the view has been caught up since the answer was made.
func (c *upstreamView) confirmedAt(item *cache.Item) (at time.Time, holds bool) {
	if item.Checked == 0 {
		return item.ConfirmedAt, false
	}
	asOf, since, caughtUp := c.upstream.CaughtUp()
	if since.UnixNano() != item.Checked {
		return item.ConfirmedAt, false
	}
	return laterTime(item.ConfirmedAt, asOf), caughtUp
}

// mayRefresh returns true if another look may make an answer hold.
func (c *upstreamView) mayRefresh(item *cache.Item) bool {
	if c.upstream == nil || item.ConfirmedAt.IsZero() {
		return false
	}
	_, since, caughtUp := c.upstream.CaughtUp()
	return caughtUp && since.UnixNano() != item.Checked
}

// isDeletedUpstream reports whether upstream no longer holds an entry that has a copy here.
func (m *Memory) isDeletedUpstream(id journal.ID, state *journal.State, g cache.Generation) bool {
	if m.view.upstream == nil {
		return false
	}
	known := m.view.merge(id, state, nil)
	f := m.assess(id.Namespace, AnyAge, known.item, g)
	return f.freshness == cache.Fresh && f.item.Body == nil
}

// shows returns whether a view that has caught up shows a value of an entry, and whether it shows the tombstone of a
// delete: upstream's word for that need not be checked against its list then.
func (c *upstreamView) shows(id journal.ID) (present, absent bool) {
	if c.upstream == nil {
		return false, false
	}
	_, _, caughtUp := c.upstream.CaughtUp()
	row, present, known := c.upstream.Entry(id)
	return caughtUp && known && present, caughtUp && known && !present && row.UpdatedAt != 0
}

// listed does the same as [journal.Listings.Shows], but answers from the view if the view knows the
// entry.
func (c *upstreamView) listed(id journal.ID) (l journal.Listing, listed, ok bool, err error) {
	if l, listed, ok, err = c.journal.Listings.Shows(id); err != nil || c.upstream == nil || c.hasDataLoss(id.Namespace) {
		return l, listed, ok, err
	}
	asOf, _, _ := c.upstream.CaughtUp()
	_, present, known := c.upstream.Entry(id)
	if !known {
		return l, listed, ok, nil
	}
	return journal.Listing{FetchedAt: laterTime(asOf, l.FetchedAt), Complete: true}, present, true, nil
}

// versionOf returns the time of the version that the view shows of an entry, in microseconds; 0 if it
// shows none. In a namespace with data loss it is 0 too: the copies here are to replace upstream's
// version.
func (c *upstreamView) versionOf(id journal.ID) int64 {
	if c.upstream == nil || c.hasDataLoss(id.Namespace) {
		return 0
	}
	row, _, _ := c.upstream.Entry(id)
	return micros(row.UpdatedAt)
}

func (c *upstreamView) hasDataLoss(namespace string) bool {
	_, suspect := c.journal.Trust.Suspect(namespace)
	return suspect
}

// micros converts Unix seconds to whole microseconds, by which versions are ordered.
func micros(at float64) int64 { return int64(math.Round(at * 1e6)) }

func laterTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// olderAnswer refuses an answer that is older than what upstream has shown: by a server that no longer leads.
type olderAnswer struct{}

func (olderAnswer) Error() string { return "upstream answers with an older state than it has shown" }

// RetryAfter returns about how long a cluster needs to agree on a leader.
func (olderAnswer) RetryAfter() time.Duration { return time.Second }

var errOlderAnswer error = olderAnswer{}
