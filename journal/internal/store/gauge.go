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
	looked  func() // called after each measurement; may be nil

	looking sync.Mutex   // held during a measurement, so that callers with an old one wait for it
	checked atomic.Int64 // when the free space was last measured: nanoseconds after epoch plus 1; 0 if never
	free    atomic.Int64 // free bytes at that time, minus the bytes written since
	// hidden is how many bytes the system reports as free, but does not give: a user's quota is used up.
	// Only an attempt to take room shows that, see bound. short means that the latest one failed.
	hidden atomic.Int64
	short  atomic.Bool
	tried  time.Time // when the latest attempt was; guarded by looking
}

const (
	// plenty bounds the free space, so that sums do not overflow.
	plenty = 1 << 62
	// quotaPause is the time between attempts to take room under a quota: nothing tells that it was raised.
	quotaPause = 30 * time.Second
)

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
		g.found(free)
	}
	return true
}

func (g *gauge) found(free int64) {
	g.free.Store(free)
	g.checked.Store(int64(time.Since(g.epoch)) + 1)
}

// measure returns the free bytes on the disk that this user may have.
func (g *gauge) measure() (free int64, err error) {
	usage, err := g.fs.GetDiskUsage(g.dir)
	return int64(min(usage.AvailBytes, plenty)) - g.hidden.Load(), err // guard 3.49
}

// bound corrects the measurements after a failed attempt to take room: at least and at most so many bytes
// are free now. The system's figure lacks a user's quota, but it shows what is freed and taken later. On a
// disk that is full for everybody, the figure is right.
func (g *gauge) bound(least, most int64) {
	g.looking.Lock()
	defer g.looking.Unlock()
	free, err := g.measure()
	if err != nil || g.reserve <= 0 || g.hidden.Load() == 0 && free < g.reserve { // guard 3.54
		return
	}
	bounded := max(least, min(free, most))
	g.hidden.Store(max(0, g.hidden.Load()+free-bounded))
	g.found(bounded)
	g.short.Store(true)
	g.tried = time.Now()
}

// retries reports whether a quota may have been raised since the latest attempt, and counts as one.
func (g *gauge) retries() bool {
	g.looking.Lock()
	defer g.looking.Unlock()
	if !g.short.Load() && g.hidden.Load() == 0 || time.Since(g.tried) < quotaPause {
		return false
	}
	g.tried = time.Now()
	return true
}

// believe takes the system's figure for the free space as it is, until the next attempt fails.
func (g *gauge) believe() {
	g.hidden.Store(0)
	g.short.Store(false)
	g.forget()
}

// Low reports whether less than the reserve plus n bytes are free. If not, it counts the n bytes as
// written. A file system that cannot tell, or was not asked yet, counts as having room.
func (g *gauge) Low(n int64) bool {
	if g.short.Load() || g.below(g.reserve+n) { // guard 3.53
		return true
	}
	g.free.Add(-n) // guard 3.16
	return false
}

// Pressure reports whether less than the reserve is free.
func (g *gauge) Pressure() bool { return g.short.Load() || g.below(g.reserve) }

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
