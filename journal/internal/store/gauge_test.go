package store

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// slowDisk is a file system with settable free space. Its answers can be delayed.
type slowDisk struct {
	vfs.FS
	free  atomic.Int64
	looks atomic.Int64
	err   error
	hold  chan struct{} // if not nil, an answer waits for it
}

func (d *slowDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	d.looks.Add(1)
	if d.hold != nil {
		<-d.hold
	}
	return vfs.DiskUsage{AvailBytes: uint64(d.free.Load())}, d.err
}

func newGauge(d *slowDisk) *gauge { return &gauge{fs: d, reserve: 1000, epoch: time.Now()} }

// A measurement counts only for a moment, minus the bytes written since.
func TestGaugeIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{}
		d.free.Store(1100)
		g := newGauge(d)
		for range 10 {
			g.Look()
		}
		if n := d.looks.Load(); n != 1 {
			t.Errorf("%d looks in no time", n)
		}
		if g.Low(60) || !g.Low(60) {
			t.Error("what is written does not count")
		}
		time.Sleep(gaugeFresh)
		g.Look()
		if g.Low(60) {
			t.Error("the look from before is believed")
		}
		d.free.Store(0)
		time.Sleep(gaugeFresh)
		g.Look()
		if !g.Low(0) || !g.Pressure() || !g.Critical() {
			t.Error("a full disk is not noticed")
		}
	})
}

// A measurement that fails ends nothing: the one before it counts.
func TestGaugeThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{err: errors.New("it fails")}
		g := newGauge(d)
		g.Look()
		if g.Low(0) {
			t.Error("a disk that was never measured is full")
		}
		d.err = nil
		g.Look()
		d.free.Store(1100)
		d.err = errors.New("it fails")
		time.Sleep(gaugeFresh)
		g.Look()
		if !g.Low(0) {
			t.Error("what was measured before does not count")
		}
	})
}

// During a long measurement, other callers wait for it: none uses an old one.
func TestGaugeOnASlowDisk(t *testing.T) {
	d := &slowDisk{}
	d.free.Store(1 << 30)
	g := newGauge(d)
	g.Look()
	age := func(by time.Duration) { g.checked.Add(-int64(by)) }
	age(gaugeFresh)
	d.hold = make(chan struct{})
	d.free.Store(0)
	looked := make(chan struct{})
	go func() { defer close(looked); g.Look() }()
	for d.looks.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	low := make(chan bool)
	go func() {
		g.Look()
		low <- g.Low(0)
	}()
	select {
	case <-low:
		t.Error("a caller goes by an old look")
	case <-time.After(50 * time.Millisecond):
		close(d.hold)
		if !<-low {
			t.Error("a caller that waited goes by an old look")
		}
		<-looked
		return
	}
	close(d.hold)
	<-looked
}
