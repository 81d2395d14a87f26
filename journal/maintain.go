package journal

import (
	"context"
	"errors"
	"time"

	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store/diskfs"
)

const (
	// maintainEvery is how often the store's size is looked at.
	maintainEvery = time.Second
	// worthCompacting is how many bytes of garbage are worth a compaction: a drained
	// journal keeps at most that much of what it held.
	worthCompacting = 4 << 20
	// maxCompactionPause bounds the wait after a compaction that found no room. While it
	// tries, it takes what room there is from flushing, which needs little of it and
	// gives back more.
	maxCompactionPause = 15 * time.Second
	// criticalShare of the reserve is what flushing leaves free: with less, nothing is
	// written at all. A store that cannot write its tables stalls, reads and all.
	criticalShare = 4
)

// Maintain keeps the store small, until ctx ends: settled copies stay within their budget,
// what has been carried upstream gives its room back, and under disk pressure the settled
// copies do, which upstream can be asked for again. It is to be run after [Journal.Run].
//
// Errors: those of a failed disk. A disk that stays full is none.
func (j *Journal) Maintain(ctx context.Context) error {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	m := &maintainer{Journal: j, compacted: make(map[string]extent)}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := m.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// maintainer is the state of one Maintain.
type maintainer struct {
	*Journal
	// compacted says, by prefix, what there was when it was last rid of its garbage.
	compacted map[string]extent
	// After a compaction that found no room, none is tried before notBefore; each
	// further one doubles the pause.
	notBefore time.Time
	pause     time.Duration
}

// extent is the last write, and the bytes that were pending. More garbage has come when
// there is a newer write, or when much less is pending.
type extent struct {
	seq     uint64
	pending int64
}

func (m *maintainer) look(ctx context.Context) error {
	if err := m.store.Acquire(); err != nil {
		return err
	}
	defer m.store.Release()
	if err := m.store.Look(); err != nil {
		return err
	}
	totals := m.store.Totals()
	idle := totals.Pending == 0
	if idle {
		m.notBefore = time.Time{} // nobody needs the room that a compaction takes
	}
	if m.store.Pressure(1) {
		return m.makeRoom(ctx)
	}
	if err := m.boundCopies(ctx); err != nil {
		return err
	}
	if idle {
		return m.compact(ctx, record.PendingPrefix)
	}
	return nil
}

// boundCopies keeps the settled copies within their budget, on the disk too.
func (m *maintainer) boundCopies(ctx context.Context) error {
	removed, err := m.evictor.bound(ctx)
	if err != nil || !removed {
		return err
	}
	for _, prefix := range []string{record.SettledPrefix, record.RowPrefix} {
		delete(m.compacted, prefix)
		if err := m.compact(ctx, prefix); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom gives up the settled copies, but for those of entries with a pending write,
// which take their created_at from them. That is no change of what is known to be so: the
// others are asked for anew.
func (m *maintainer) makeRoom(ctx context.Context) error {
	held, err := m.held(ctx, record.SettledPrefix)
	if err != nil {
		return err
	}
	if held > worthCompacting {
		m.opts.Logger.Warn("the disk is nearly full: settled copies are given up", "bytes", held)
		if err := m.evictor.dropAll(ctx); err != nil {
			return err
		}
		delete(m.compacted, record.SettledPrefix)
		m.notBefore = time.Time{} // there is something to gain
	}
	return errors.Join(m.compact(ctx, record.SettledPrefix), m.compact(ctx, record.PendingPrefix))
}

// compact has Pebble give back the room of what was removed under a prefix. A disk that
// is too full for that is waited for.
func (m *maintainer) compact(ctx context.Context, prefix string) error {
	totals := m.store.Totals()
	now := extent{totals.Seq, totals.PendingBytes}
	last, ok := m.compacted[prefix]
	if ok && last.seq == now.seq && last.pending-now.pending <= worthCompacting || time.Now().Before(m.notBefore) {
		return nil
	}
	held, err := m.held(ctx, prefix)
	if err != nil || held <= worthCompacting {
		return err
	}
	if err = m.store.Compact(ctx, prefix); diskfs.IsFull(err) {
		m.pause = min(max(2*m.pause, 2*maintainEvery), maxCompactionPause)
		m.notBefore = time.Now().Add(m.pause)
		return nil
	}
	m.compacted[prefix], m.pause = now, 0
	return err
}

// held is what the tables of a prefix take on the disk, after what is in memory has
// become a table.
func (m *maintainer) held(ctx context.Context, prefix string) (int64, error) {
	if m.store.InMemory() > worthCompacting {
		if err := m.store.Flush(ctx); err != nil {
			return 0, err
		}
	}
	return m.store.Usage(prefix)
}
