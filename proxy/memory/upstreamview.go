package memory

import (
	"errors"
	"math"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/journal"
)

// While a view of upstream has caught up, no answer gets old: an answer holds until the view has
// another version. Two rules make sure that no answer counts as fresh after that.
//
// A reader makes an answer in this order: take the generation of its key, look up the local state, ask
// the view whether it has caught up, look at the entry's version in the view, put the answer into the
// cache under that generation. The view's owner does the opposite: it puts the version into the view,
// and then advances the generation with [Memory.VersionSeen]. If the reader looks at the view after the
// version came in, the answer is made from that version or is outdated. If the reader looks before, its
// generation is old as soon as VersionSeen returns. The cache returns no answer of an old generation.
//
// An answer records when the view's span began. If the view breaks, the versions that it misses advance
// no generation, and the answer gets old from then on. When the view has caught up again, it has
// reported all these versions, and its span begins at another time: an earlier answer is compared
// again.
//
// A local state may be newer than the view's, because it was read upstream ahead of the watch. If the
// view does not even have a tombstone to compare the state with, the time when the state was confirmed
// decides. A listing is never newer: see [View]. The view has at least all that upstream held at asOf,
// and maybe more. So a listing from after asOf does not replace the view while the watch is broken.

// upstreamView compares the local state with the known state of upstream.
type upstreamView struct {
	upstream View // nil if upstream does not report changes
	journal  *journal.Journal
}

// compare compares a state and the cached answer with upstream's version in the view, and returns what is
// known by the newest. The entry's generation must be older than the lookup of the state.
func (c *upstreamView) compare(id journal.ID, state *journal.State, cached *cache.Item) known {
	byTime := func() known { return known{item: newest(id, state, cached), mayExist: state.Listed} }
	if c.upstream == nil || state.Seq != 0 {
		return byTime()
	}
	asOf, since, caughtUp := c.upstream.CaughtUp()
	row, held, wasRead := c.upstream.Entry(id)
	if !wasRead || c.hasDataLoss(id.Namespace) {
		return byTime()
	}
	confirm := func(item cache.Item) known {
		item.ConfirmedAt, item.Checked = laterTime(item.ConfirmedAt, asOf), since.UnixNano()
		return known{item: &item}
	}
	kept, version := state.Kind == journal.Settled, micros(row.UpdatedAt)
	switch made, _ := entryItem(id, *state); {
	case held && kept && micros(state.UpdatedAt) >= version: // guard 7.36
		return confirm(made)
	case held && kept:
		return outdated(made)
	case held && !caughtUp && isAbsentSince(cached, asOf):
		return known{item: cached}
	case held:
		return known{mayExist: true, held: caughtUp}
	case kept && version != 0 && micros(state.UpdatedAt) > version, kept && version == 0 && made.ConfirmedAt.After(asOf):
		return known{item: &made} // newer than the view's state
	// guard 17.34
	case kept && version == 0: // no tombstone: upstream may have lost the entry, and its list decides
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

// outdated marks an answer that upstream probably no longer holds. Its age is unknown: see [cache.Age].
func outdated(made cache.Item) known {
	made.ConfirmedAt, made.Outdated = time.Unix(0, 0), true
	return known{item: &made}
}

// dropDeleted drops an entry's copy if, by the view, the entry was deleted later. A caller that answers
// "not found" must drop the copy first. Otherwise the copy could take a reader back to before the
// delete: after a restart, or when the view has a new value while upstream cannot be asked (contract
// 7). The caller then looks again, because the entry may have changed.
func (m *Memory) dropDeleted(id journal.ID) error {
	lease := m.cache.Lease(entryKey(id))
	defer lease.Release()
	state, err := m.journal.Lookup(id)
	if err != nil || !m.view.isDeleted(id, &state) {
		return err
	}
	_, err = m.journal.Fill(id, nil, func() bool { return !lease.Revoked() })
	if errors.Is(err, journal.ErrChanged) {
		return nil
	}
	return err
}

// isDeleted reports whether, by the view, an entry was deleted after its local copy.
func (c *upstreamView) isDeleted(id journal.ID, state *journal.State) bool {
	return c.upstream != nil && c.compare(id, state, nil).deleted
}

// isAbsentSince reports whether a cached 404 is from after that time.
func isAbsentSince(cached *cache.Item, at time.Time) bool {
	return cached != nil && cached.Body == nil && cached.ConfirmedAt.After(at)
}

// confirmedAt returns when upstream was last known to hold an answer. holds says that it still does: the view
// has been caught up since the answer was made.
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

// mayRefresh reports whether comparing with the view again may make an answer hold.
func (c *upstreamView) mayRefresh(item *cache.Item) bool {
	if c.upstream == nil || item.ConfirmedAt.IsZero() {
		return false
	}
	_, since, caughtUp := c.upstream.CaughtUp()
	return caughtUp && since.UnixNano() != item.Checked
}

// shows reports whether a caught-up view has a version of an entry with a value, or the tombstone of
// its delete. With a tombstone, upstream's 404 need not be checked against its list.
func (c *upstreamView) shows(id journal.ID) (held, deleted bool) {
	if c.upstream == nil {
		return false, false
	}
	_, _, caughtUp := c.upstream.CaughtUp()
	row, held, wasRead := c.upstream.Entry(id)
	return caughtUp && wasRead && held, caughtUp && wasRead && !held && row.UpdatedAt != 0
}

// listed returns a namespace's listing without its rows, and reports whether the listing has an entry:
// by the view once that was read, and otherwise by the journal. ok is false if there is no listing.
func (c *upstreamView) listed(id journal.ID) (l journal.Listing, listed, ok bool, err error) {
	if l, listed, ok, err = c.journal.Listings.Shows(id); err != nil || c.upstream == nil || c.hasDataLoss(id.Namespace) {
		return l, listed, ok, err
	}
	asOf, _, _ := c.upstream.CaughtUp()
	_, held, wasRead := c.upstream.Entry(id)
	if !wasRead {
		return l, listed, ok, nil
	}
	return journal.Listing{FetchedAt: laterTime(asOf, l.FetchedAt), Complete: true}, held, true, nil
}

// versionOf returns the time of an entry's version in the view, in microseconds; 0 if there is none. It is
// also 0 in a namespace with data loss, because local copies are to replace upstream's version there.
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

// micros converts Unix seconds to whole microseconds, which order versions.
func micros(at float64) int64 { return int64(math.Round(at * 1e6)) }

func laterTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// olderAnswer refuses an answer that is older than a version upstream has shown: a server that no longer
// leads has sent it, or upstream shows an older version of a sealed entry.
type olderAnswer struct{}

func (olderAnswer) Error() string { return "upstream answers with an older state than it has shown" }

// RetryAfter returns about the time in which a cluster elects a leader.
func (olderAnswer) RetryAfter() time.Duration { return time.Second }

// Held says that the entry is not absent.
func (olderAnswer) Held() bool { return true }

var errOlderAnswer error = olderAnswer{}
