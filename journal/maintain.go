package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/botwired/botwired/internal/diskfs"
	"github.com/botwired/botwired/journal/internal/record"
	"github.com/botwired/botwired/journal/internal/store"
)

const (
	// maintainEvery is the interval between two rounds of maintenance.
	maintainEvery = time.Second
	// worthCompacting is the number of bytes of garbage that justifies a compaction. A drained journal
	// keeps at most that much.
	worthCompacting = 4 << 20
	// maxCompactionPause bounds the pause after a compaction that found no room. A compaction takes the
	// remaining room away from flushing, which needs little and frees more.
	maxCompactionPause = 15 * time.Second
)

// Maintain keeps the store small until ctx ends. It keeps the settled copies and the history within
// their budgets, removes old receipts, and frees the space of writes that have left the journal. Under
// disk pressure it first removes the history and most settled copies, because upstream can be asked
// again, and then the receipts. It records when the journal refuses writes.
// The caller runs it after [Journal.Run].
//
// Errors: those of a failed disk, and [ErrCorrupt] if it meets damage: it could not keep the budgets until a start mends the
// journal. A disk that stays full is not an error.
func (j *Journal) Maintain(ctx context.Context) error {
	m := &maintainer{Journal: j, compacted: make(map[string]extent)}
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return everySecond(ctx, func() error { return m.once(ctx) }) })
	tasks.Go(func() error { return everySecond(ctx, j.queue.MaintainReceipts) })
	// guard 3.29
	tasks.Go(func() error { return everySecond(ctx, func() error { _ = j.Err(); return nil }) }) // Err records what it finds
	return tasks.Wait()
}

func everySecond(ctx context.Context, task func() error) error {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := task(); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// maintainer runs one Maintain.
type maintainer struct {
	*Journal
	// compacted holds the extent at each prefix's last compaction.
	compacted map[string]extent
	// After a compaction that found no room, the next one waits until notBefore. Each failure doubles
	// the pause.
	notBefore time.Time
	pause     time.Duration
	// dropAfter delays the next attempt to give up copies after one that found little. idle says that nothing was
	// pending at the latest look.
	dropAfter time.Time
	idle      bool
}

// extent is the journal's progress at a compaction. Garbage has grown if there is a newer write, or if
// much less is pending.
type extent struct {
	seq     uint64
	pending int64
}

func (m *maintainer) once(ctx context.Context) error {
	err := m.store.Use(func() error { return m.look(ctx) })
	if m.store.Damaged(err) {
		return fmt.Errorf("journal %s: %w; the next start mends it, or says what is to be done", m.opts.Dir, store.OneLine(store.Classify(err)))
	}
	return err
}

func (m *maintainer) look(ctx context.Context) error {
	m.store.Look()
	totals := m.store.Totals()
	idle := totals.Pending == 0
	if idle {
		m.notBefore = time.Time{} // no flushing needs the room that a compaction takes
	}
	if idle && !m.idle {
		m.dropAfter = time.Time{} // guard 3.70
	}
	m.idle = idle
	if m.store.Pressure() {
		return m.makeRoom(ctx) // guard 3.11
	}
	if err := m.bound(ctx, m.entries.BoundCopies, record.SettledPrefix, record.RowPrefix); err != nil {
		return err
	}
	if err := m.bound(ctx, m.entries.BoundHistory, record.VersionPrefix); err != nil {
		return err
	}
	if idle {
		return m.compact(ctx, record.PendingPrefix)
	}
	return nil
}

// bound calls remove, and compacts the tables of the prefixes if that has removed any record.
func (m *maintainer) bound(ctx context.Context, remove func(context.Context) (bool, error), prefixes ...string) error {
	removed, err := remove(ctx)
	if err != nil || !removed {
		return err
	}
	for _, prefix := range prefixes {
		delete(m.compacted, prefix)
		if err := m.compact(ctx, prefix); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom removes the settled copies and the history, except the copies used last, those of suspect
// namespaces, and those of entries with a pending write, which takes its created_at from the copy. No answer
// changes, because a read asks upstream again. When too few of them are left, makeRoom removes the receipts.
func (m *maintainer) makeRoom(ctx context.Context) error {
	given, err := m.giveUpCopies(ctx)
	if err == nil && !given {
		err = m.giveUpReceipts(ctx)
	}
	if err != nil {
		return err
	}
	for _, prefix := range []string{record.SettledPrefix, record.VersionPrefix, record.ReceiptPrefix, record.PendingPrefix} {
		err = errors.Join(err, m.compact(ctx, prefix))
	}
	return err
}

// giveUpCopies reports whether it has given up much. Most versions on the disk may be of pending writes,
// so it finds out by a pass over all; the next pass waits after one that found little.
func (m *maintainer) giveUpCopies(ctx context.Context) (given bool, err error) {
	copied, err := m.held(ctx, record.SettledPrefix)
	if err != nil {
		return false, err
	}
	versions, err := m.held(ctx, record.VersionPrefix)
	if err != nil || copied+versions <= worthCompacting || time.Now().Before(m.dropAfter) {
		return false, err
	}
	bytes, err := m.entries.DropOld(ctx)
	if err != nil {
		return false, err
	}
	if bytes <= worthCompacting {
		m.dropAfter = time.Now().Add(maxCompactionPause)
		return false, nil
	}
	m.opts.Logger.Warn("the disk is nearly full: settled copies and the history are given up", "bytes", bytes)
	m.gain(record.SettledPrefix)
	m.gain(record.VersionPrefix)
	return true, nil
}

func (m *maintainer) giveUpReceipts(ctx context.Context) error {
	held, err := m.held(ctx, record.ReceiptPrefix)
	if err != nil || held <= worthCompacting || m.queue.ReceiptsKept() == 0 {
		return err
	}
	m.opts.Logger.Warn("the disk is nearly full: receipts are given up", "bytes", held)
	m.gain(record.ReceiptPrefix)
	return m.queue.GiveUpReceipts()
}

// gain allows the next compaction of a prefix, because there is something to free.
func (m *maintainer) gain(prefix string) {
	delete(m.compacted, prefix)
	m.notBefore = time.Time{}
}

// compact makes Pebble free the space of records removed under a prefix. If the disk is too full for
// that, a later call tries again.
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
	soon, cancel := context.WithTimeout(ctx, maxCompactionPause)
	defer cancel()
	// On a full disk a compaction may wait for room that only another round of maintenance frees.
	if err = m.store.Compact(soon, prefix); diskfs.IsFull(err) || soon.Err() != nil && ctx.Err() == nil {
		m.pause = min(max(2*m.pause, 2*maintainEvery), maxCompactionPause)
		m.notBefore = time.Now().Add(m.pause)
		return nil
	}
	m.compacted[prefix], m.pause = now, 0
	return err
}

// held returns how many bytes the tables of a prefix take on disk. If much is still in memory, held
// flushes it to tables first.
func (m *maintainer) held(ctx context.Context, prefix string) (int64, error) {
	if m.store.InMemory() > worthCompacting {
		soon, cancel := context.WithTimeout(ctx, maxCompactionPause)
		defer cancel()
		if err := m.store.Flush(soon); err != nil && !diskfs.IsFull(err) && (soon.Err() == nil || ctx.Err() != nil) {
			return 0, err
		}
	}
	return m.store.Usage(prefix)
}
