package journal

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// tendEvery is how often the store's size is looked at.
	tendEvery = time.Second
	// worthCompacting is how many bytes of garbage are worth a compaction: a drained
	// journal keeps at most that much of what it held.
	worthCompacting = 4 << 20
	// compactAgainAtMost bounds the wait after a compaction that found no room. While it
	// tries, it takes what room there is from flushing, which needs little of it and
	// gives back more.
	compactAgainAtMost = 15 * time.Second
	// criticalShare of the reserve is what flushing leaves free: with less, nothing is
	// written at all. A store that cannot write its tables stalls, reads and all.
	criticalShare = 4
)

// Maintain keeps the store small, until ctx ends: what has been carried upstream gives its
// room back, and while the disk is nearly full the settled copies do, which upstream
// can be asked for again. It is to be run after [Journal.Run].
//
// Errors: those of a failed disk. A disk that stays full is none.
func (j *Journal) Maintain(ctx context.Context) error {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	t := &tender{Journal: j, shrunk: make(map[string]extent)}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := t.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// tender is the state of one Maintain.
type tender struct {
	*Journal
	// shrunk says, by prefix, what there was when it was last rid of its garbage.
	shrunk map[string]extent
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

func (j *tender) extent() extent {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	return extent{j.totals.seq, j.totals.pendingBytes}
}

func (j *tender) look(ctx context.Context) error {
	if err := j.enter(); err != nil {
		return err
	}
	defer j.leave()
	low, idle, err := j.strain()
	if idle {
		j.notBefore = time.Time{} // nobody needs the room that a compaction takes
	}
	switch {
	case err != nil:
		return err
	case low:
		return j.makeRoom(ctx)
	case idle:
		return j.shrink(ctx, pendingPrefix)
	}
	return nil
}

// strain reports whether the disk is nearly full, and whether nothing is pending.
func (j *Journal) strain() (low, idle bool, err error) {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	low, err = j.disk.below(j.opts.DiskReserve)
	return low, j.totals.pending == 0, err
}

// makeRoom gives up the settled copies. That is no change of what is known to be so:
// they are asked for anew.
func (j *tender) makeRoom(ctx context.Context) error {
	held, err := j.held(ctx, settledPrefix)
	if err != nil {
		return err
	}
	if held > worthCompacting {
		j.opts.Logger.Warn("the disk is nearly full: settled copies are given up", "bytes", held)
		if err := j.dropCopies(); err != nil {
			return err
		}
		delete(j.shrunk, settledPrefix)
		j.notBefore = time.Time{} // there is something to gain
	}
	return errors.Join(j.shrink(ctx, settledPrefix), j.shrink(ctx, pendingPrefix))
}

func (j *Journal) dropCopies() error {
	prefix := []byte(settledPrefix)
	return j.change(func(batch *pebble.Batch) error { return batch.DeleteRange(prefix, after(prefix), nil) })
}

// shrink has Pebble give back the room of what was removed under a prefix. A disk that
// is too full for that is waited for.
func (j *tender) shrink(ctx context.Context, prefix string) error {
	now := j.extent()
	last, ok := j.shrunk[prefix]
	if ok && last.seq == now.seq && last.pending-now.pending <= worthCompacting || time.Now().Before(j.notBefore) {
		return nil
	}
	held, err := j.held(ctx, prefix)
	if err != nil || held <= worthCompacting {
		return err
	}
	err = j.catch(func() error { return j.db.Compact(ctx, []byte(prefix), after([]byte(prefix)), false) })
	if isDiskFull(err) {
		j.pause = min(max(2*j.pause, 2*tendEvery), compactAgainAtMost)
		j.notBefore = time.Now().Add(j.pause)
		return nil
	}
	j.shrunk[prefix], j.pause = now, 0
	return err
}

// held is what the tables of a prefix take on the disk, after what is in memory has
// become a table.
func (j *tender) held(ctx context.Context, prefix string) (int64, error) {
	if j.db.Metrics().MemTable.Size > worthCompacting {
		if err := j.flushTables(ctx); err != nil {
			return 0, err
		}
	}
	n, err := j.db.EstimateDiskUsage([]byte(prefix), after([]byte(prefix)))
	return int64(n), err
}

// flushTables writes what is in memory to tables. On a full disk that may take for ever.
func (j *tender) flushTables(ctx context.Context) error {
	var flushed <-chan struct{}
	if err := j.catch(func() (err error) { flushed, err = j.db.AsyncFlush(); return err }); err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mayFlush refuses to begin an attempt whose record-keeping the disk may not bear.
func (j *Journal) mayFlush() error {
	j.commitMu.Lock()
	defer j.commitMu.Unlock()
	critical, err := j.disk.below(j.opts.DiskReserve / criticalShare)
	if err != nil {
		return err
	}
	if critical {
		return ErrFull
	}
	return nil
}
