package journal

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// diskCheckEvery is how long one look at the free space is believed. Much can be
// written in that time by a fast disk, which is why the reserve is large.
const diskCheckEvery = 50 * time.Millisecond

// diskGauge watches the free space under a directory. Its methods must not overlap.
type diskGauge struct {
	fs      vfs.FS
	dir     string
	reserve int64

	checked time.Time
	free    int64 // at that time, less what was written since
}

// low reports whether less than the reserve and n bytes are free, and counts the n
// bytes as written if not. A file system that cannot tell is taken to have room.
func (g *diskGauge) low(n int64) (bool, error) {
	low, err := g.below(g.reserve + n)
	if err != nil || low {
		return low, err
	}
	g.free -= n
	return false, nil
}

// below reports whether less than n bytes are free.
func (g *diskGauge) below(n int64) (bool, error) {
	if g.reserve <= 0 {
		return false, nil
	}
	now := time.Now()
	if g.checked.IsZero() || now.Sub(g.checked) >= diskCheckEvery {
		usage, err := g.fs.GetDiskUsage(g.dir)
		if errors.Is(err, vfs.ErrUnsupported) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("free space of the disk: %w", err)
		}
		g.checked = now
		g.free = int64(min(usage.AvailBytes, 1<<62))
	}
	return g.free < n, nil
}

// room refuses a write that would add more to what the budget counts than is left
// of it, or write more than the disk has (contract 3). Both are in bytes. One that
// adds nothing is within any budget. The caller holds commitMu.
func (j *Journal) room(adds, writes int64) error {
	used := j.totals.pendingBytes - j.superseded + j.totals.deadBytes
	if j.opts.MaxBytes > 0 && adds > 0 && used+adds > j.opts.MaxBytes {
		return fmt.Errorf("%w: pending writes and dead letters take %d bytes of the %d allowed",
			ErrFull, used, j.opts.MaxBytes)
	}
	low, err := j.disk.low(writes)
	if err != nil {
		return err
	}
	if low {
		return fmt.Errorf("%w: the disk has less than the reserve of %d bytes free", ErrFull, j.opts.DiskReserve)
	}
	return nil
}
