package store

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gaugeFresh is how long a measurement of the free space counts. A fast disk can write much in that
// time, so the reserve is large.
const gaugeFresh = 50 * time.Millisecond

// gauge watches the free space under a directory. Its methods may be called concurrently.
type gauge struct {
	fs      vfs.FS
	dir     string
	reserve int64
	epoch   time.Time

	looking sync.Mutex   // held during a measurement, so that callers with an old one wait for it
	checked atomic.Int64 // when the free space was last measured: nanoseconds after epoch plus 1; 0 if never
	free    atomic.Int64 // free bytes at that time, minus the bytes written since
}

// Look measures the free space, unless a caller did so just now. Callers hold no lock, and call it
// before [Store.Low]. If it fails, the measurement before counts, and the next caller measures again.
func (g *gauge) Look() {
	if g.reserve <= 0 || g.age() < gaugeFresh { // guard 3.15
		return
	}
	g.looking.Lock() // guard 3.17
	defer g.looking.Unlock()
	if g.age() < gaugeFresh {
		return // another caller has measured meanwhile
	}
	const plenty = 1 << 62
	usage, err := g.fs.GetDiskUsage(g.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		usage.AvailBytes, err = plenty, nil
	}
	if err != nil {
		return
	}
	g.free.Store(int64(min(usage.AvailBytes, plenty)))
	g.checked.Store(int64(time.Since(g.epoch)) + 1)
}

// Low reports whether less than the reserve plus n bytes are free. If not, it counts the n bytes as
// written. A file system that cannot tell, or was not asked yet, counts as having room.
func (g *gauge) Low(n int64) bool {
	if g.below(g.reserve + n) {
		return true
	}
	g.free.Add(-n) // guard 3.16
	return false
}

// Pressure reports whether less than the reserve is free.
func (g *gauge) Pressure() bool { return g.below(g.reserve) }

// Critical reports whether so little is free that the outcome of a request upstream may not fit.
func (g *gauge) Critical() bool { return g.below(g.reserve / criticalShare) }

// mergeable reports whether tables may be merged. A merge takes the tables' space twice, so it must
// leave half the reserve for the writes of callers and of the flusher.
func (g *gauge) mergeable() bool {
	g.Look()
	return !g.below(g.reserve / 2)
}

// forget makes the next caller measure again, because the free space has changed suddenly.
func (g *gauge) forget() { g.checked.Store(0) }

func (g *gauge) below(n int64) bool {
	return g.reserve > 0 && g.checked.Load() != 0 && g.free.Load() < n // guard 3.2
}

// age returns the time since the last measurement.
func (g *gauge) age() time.Duration {
	checked := g.checked.Load()
	if checked == 0 {
		return gaugeFresh
	}
	return time.Since(g.epoch) + 1 - time.Duration(checked)
}
