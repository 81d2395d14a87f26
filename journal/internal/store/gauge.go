package store

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/internal/diskfs"
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
	looked  func() // called after each measurement; may be nil

	looking sync.Mutex   // held during a measurement, so that callers with an old one wait for it
	checked atomic.Int64 // when the free space was last measured: nanoseconds after epoch plus 1; 0 if never
	free    atomic.Int64 // free bytes at that time, minus the bytes written since
	// refused says that the disk had no room for a table from memory, even if the system reports free space. Pebble
	// tries the table again until it is written.
	refused atomic.Bool
}

// criticalShare is the divisor of the reserve for [Store.Critical]. With less than that part free, a
// store that cannot write its tables stalls, reads included.
const criticalShare = 4

// plenty bounds the free space, so that sums do not overflow.
const plenty = 1 << 62

// Look measures the free space, unless a caller did so just now. Callers hold no lock, and call it
// before [Store.Low]. If it fails, the measurement before counts, and the next caller measures again.
func (g *gauge) Look() {
	if g.look() && g.looked != nil {
		g.looked()
	}
}

// look reports whether it has measured.
func (g *gauge) look() bool {
	if g.age() < gaugeFresh { // guard 3.15
		return false
	}
	g.looking.Lock() // guard 3.17
	defer g.looking.Unlock()
	if g.age() < gaugeFresh {
		return false // another caller has measured meanwhile
	}
	free, err := g.measure()
	if errors.Is(err, vfs.ErrUnsupported) {
		free, err = plenty, nil
	}
	if err == nil {
		g.free.Store(free)
		g.checked.Store(int64(time.Since(g.epoch)) + 1)
	}
	return true
}

// measure returns the free bytes on the disk.
func (g *gauge) measure() (free int64, err error) {
	usage, err := g.fs.GetDiskUsage(g.dir)
	return int64(min(usage.AvailBytes, plenty)), err
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

// flushed notes how an attempt to write a table from memory has ended.
func (g *gauge) flushed(err error) { g.refused.Store(diskfs.IsFull(err)) }

func (g *gauge) below(n int64) bool {
	if g.refused.Load() { // guard 3.53
		return true
	}
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
