package memory

import (
	"context"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/journal"
)

// storeIf journals a write if the entry is as the caller's conditions, if any, want it.
// Nothing comes between the look at the entry and the write: so of all callers who want to
// replace one state, one does (contract 5).
func (m *Memory) storeIf(ctx context.Context, w journal.NewWrite, c Conditions) (journal.Write, error) {
	if !c.given() {
		return m.store(w)
	}
	for {
		written, err := m.tryIf(w, c)
		if !isOvertaken(err) {
			return written, err
		}
		if err := ctx.Err(); err != nil {
			return journal.Write{}, err
		}
	}
}

// tryIf decides on one look at the entry, and journals the write only if the entry is still
// as it was then.
func (m *Memory) tryIf(w journal.NewWrite, c Conditions) (journal.Write, error) {
	lease := m.cache.Lease(entryKey(w.ID))
	defer lease.Release()
	seq, changes, err := m.meets(w, c)
	if err != nil {
		return journal.Write{}, err
	}
	w.If = func(newest uint64) bool { return newest == seq && lease.Changes() == changes } // guard 5.7
	return m.store(w)
}

// meets refuses a write if the entry is not as the conditions want it. It returns the entry's
// newest pending write, 0 if there is none, and how many changes of the entry the look has made.
func (m *Memory) meets(w journal.NewWrite, c Conditions) (seq uint64, changes int64, err error) {
	seq, found, err := m.lookUp(w.ID)
	if err != nil {
		return 0, 0, err
	}
	item, changes, err := m.present(w.ID, found)
	if err != nil {
		return 0, 0, err
	}
	if item.Body == nil && w.Op == journal.Delete {
		// Without a condition it would be a 404, and so it is with one (RFC 9110, section 13.2.1).
		return 0, 0, wire.NotFound(w.Namespace, w.Key)
	}
	return seq, changes, c.refuseWrite(item)
}

// lookUp is findEntry for a write: it also says which write is pending, 0 if none is.
func (m *Memory) lookUp(id journal.ID) (seq uint64, _ found, err error) {
	item, generation := m.cache.Get(entryKey(id))
	state, err := m.journal.Lookup(id)
	if err != nil {
		return 0, found{}, err
	}
	known := m.view.merge(id, &state, item)
	if known.deleted {
		if err := m.dropDeleted(id); err != nil {
			return 0, found{}, err
		}
		return m.lookUp(id)
	}
	f := m.assess(id.Namespace, AnyAge, known.item, generation)
	f.mayExist = known.mayExist
	return state.Seq, f, nil
}

// present is the state that a GET would be answered with, which may have to be asked for, and
// how many changes of the entry that has made: the journal takes upstream's answer in.
func (m *Memory) present(id journal.ID, found found) (item *cache.Item, changes int64, err error) {
	if found.freshness == cache.Fresh || found.freshness == cache.Stale {
		return found.item, 0, nil
	}
	a, err := m.askUpstream(AnyAge, found, newEntry(m, id, found.generation, false))
	switch {
	case err != nil:
		return nil, 0, err // guard 9.2
	case a.source >= FromUpstream:
		return a.item, 1, nil
	case a.source == FromFallback, a.source == FromAssumed, a.source == FromSuspect, a.source == FromOlder:
		return a.item, 0, nil
	}
	return nil, 0, errOvertaken // by a write that the next look finds
}
