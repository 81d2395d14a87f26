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
func (m *Memory) storeIf(ctx context.Context, w journal.NewWrite, c Conditions) (written journal.Write, err error) {
	if !c.given() {
		return m.store(w)
	}
	err = unlessOvertaken(ctx, func() error {
		lease := m.cache.Lease(entryKey(w.ID))
		defer lease.Release()
		seq, changes, err := m.meets(w, c)
		if err != nil {
			return err
		}
		w.If = func(newest uint64) bool { return newest == seq && lease.Changes() == changes } // guard 5.7
		written, err = m.store(w)
		return err
	})
	return written, err
}

// unlessOvertaken makes a try that decides on one look at an entry, and makes it anew whenever the entry has
// changed before the write was journaled, until ctx ends.
func unlessOvertaken(ctx context.Context, try func() error) error {
	for {
		err := try()
		if !isOvertaken(err) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// meets refuses a write if the entry is not as the conditions want it. It returns the entry's
// newest pending write, 0 if there is none, and how many changes of the entry the look has made.
func (m *Memory) meets(w journal.NewWrite, c Conditions) (seq uint64, changes int64, err error) {
	seq, item, changes, err := m.present(w.ID)
	if err != nil {
		return 0, 0, err
	}
	if item.Body == nil && w.Op == journal.Delete {
		// Without a condition it would be a 404, and so it is with one (RFC 9110, section 13.2.1).
		return 0, 0, wire.NotFound(w.Namespace, w.Key)
	}
	return seq, changes, c.refuseWrite(item)
}

// present returns an entry's newest pending write, the state that a GET would be answered with, which may have
// to be asked for, and how many changes of the entry that has made: the journal takes upstream's answer in.
func (m *Memory) present(id journal.ID) (seq uint64, item *cache.Item, changes int64, err error) {
	seq, found, err := m.lookUp(id, AnyAge)
	if err != nil {
		return 0, nil, 0, err
	}
	if found.freshness == cache.Fresh || found.freshness == cache.Stale {
		return seq, found.item, 0, nil
	}
	a, err := m.askUpstream(AnyAge, found, newEntry(m, id, found.generation, false))
	switch {
	case err != nil:
		return 0, nil, 0, err // guard 9.2
	case a.source >= FromUpstream:
		return seq, a.item, 1, nil
	case a.source == FromFallback, a.source == FromAssumed, a.source == FromDataLoss, a.source == FromOlder:
		return seq, a.item, 0, nil
	}
	return 0, nil, 0, errOvertaken // by a write that the next look finds
}
