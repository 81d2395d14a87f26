package memory

import (
	"cmp"
	"context"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// remove journals an entry's tombstone. It returns a 404 for an entry that is known to be absent
// (contract 11). assumed says that nobody knows whether the entry exists.
func (m *Memory) remove(ctx context.Context, tombstone journal.NewWrite, before uint64) (w journal.Write, assumed bool, err error) {
	began := time.Now()
	looks := 0
	err = unlessOvertaken(ctx, func() error {
		looks++
		w, assumed, err = m.tryDelete(tombstone, before, looks > looksForNews, began) // guard 11.3
		return err
	})
	return w, assumed, err
}

// looksForNews bounds how often a DELETE looks at an entry that stays unknown although upstream has answered.
// The journal usually keeps upstream's answer, but not on a nearly full disk.
const looksForNews = 2

// tryDelete looks at the entry once, and journals the tombstone only if the entry has not changed since. With
// askedBefore, it ignores changes that leave no trace here, such as upstream's answer.
func (m *Memory) tryDelete(
	tombstone journal.NewWrite, before uint64, askedBefore bool, began time.Time,
) (w journal.Write, assumed bool, err error) {
	id := tombstone.ID
	lease := m.cache.Lease(entryKey(id))
	defer lease.Release()
	item, generation := m.cache.Get(entryKey(id))
	state, err := m.journal.Lookup(id) // the answer to a reader need not be made
	if err != nil {
		return journal.Write{}, false, err
	}
	if before != 0 && state.WrittenAs >= before { // guard 13.39
		return journal.Write{}, false, ErrLater
	}
	seq, kind := state.Seq, state.Kind
	switch kind {
	case journal.Gone: // guard 11.1
		return journal.Write{}, false, wire.NotFound(id.Namespace, id.Key)
	case journal.Settled:
		if m.view.isDeleted(id, &state) { // guard 7.50
			return journal.Write{}, false, cmp.Or(m.dropDeleted(id), errOvertaken)
		}
	case journal.Unknown, journal.Absent:
		if assumed, err = m.mayExist(id, m.compared(id, AnyAge, item, generation, &state), began); err != nil {
			return journal.Write{}, false, err
		}
	}
	tombstone.If = func(newest uint64) bool {
		return newest == seq && (!lease.Revoked() || askedBefore && leavesNoTrace(kind)) // guard 11.2
	}
	w, err = m.store(tombstone)
	return w, assumed, err
}

// leavesNoTrace reports whether the journal records nothing of upstream's answer for an entry of this kind.
func leavesNoTrace(k journal.Kind) bool { return k == journal.Unknown || k == journal.Absent }

// mayExist returns a 404 if the entry is known to be absent. If nothing is known, it asks upstream,
// within the patience left since the DELETE began. Without an answer, an older 404 or the listing
// decides.
func (m *Memory) mayExist(id journal.ID, k known, began time.Time) (assumed bool, err error) {
	if k.held {
		return false, nil
	}
	item := k.item
	if k.freshness != cache.Fresh {
		from := newEntry(m, id, k, false)
		got, err := m.fetches.wait(from, false, m.fetches.patience(from)-time.Since(began)) // guard 9.10
		switch {
		case err == nil:
			item = got.item(from.key())
		case isHeld(err): // guard 23.27
			return false, nil
		case !isUnavailable(err) || refusesCaller(err): // guard 11.4
			return false, err
		case k.freshness != cache.Fallback:
			return m.mayBeListed(id)
		}
	}
	if item.Body == nil {
		return false, wire.NotFound(id.Namespace, id.Key)
	}
	return false, nil
}

// refusesCaller reports whether upstream refused the caller. A 429 does not count.
func refusesCaller(err error) bool {
	status, answered := answeredStatus(err)
	return answered && status != statusTooManyRequests
}

// mayBeListed decides by the namespace's listing while it is good enough to answer a LIST. A complete
// listing without the entry proves that the entry is absent.
func (m *Memory) mayBeListed(id journal.ID) (assumed bool, err error) {
	l, listed, ok, err := m.view.listed(id)
	if err != nil {
		return false, err
	}
	if !ok || m.policy(id.Namespace).Judge(true, cache.Age(l.FetchedAt, time.Now())) == cache.Worthless {
		return true, nil
	}
	switch {
	case listed:
		return false, nil
	case l.Complete: // guard 11.6
		return false, wire.NotFound(id.Namespace, id.Key)
	}
	return true, nil
}
