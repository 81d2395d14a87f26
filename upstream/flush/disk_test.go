package flush_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is a file system whose free space the test sets.
type disk struct {
	vfs.FS
	free atomic.Uint64
}

func (d *disk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free.Load()}, nil
}

// contract 3: while the disk may lack room to record an attempt's outcome, the flusher begins none. The
// wait is not a failure, and ends by itself once there is room.
func TestFullDiskIsWaitedOutByTheFlusher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{FS: vfs.NewMem()}
		d.free.Store(1 << 30)
		r := newRig(t, newFake(t), d)
		r.put(key("a"), "1")
		d.free.Store(1 << 20)
		time.Sleep(time.Minute)
		why, until := r.flusher.Waits("ns")
		if entry, _ := r.flusher.EntryWaits(key("a")); !strings.HasPrefix(why, "disk full: ") || entry != why || time.Until(until) > time.Second {
			t.Errorf("it waits until %v because %q", until, why)
		}
		if n := r.log.lines("the disk is full"); n != 1 {
			t.Errorf("%d lines in the log say that the disk is full", n)
		}
		if _, ok := r.holds(key("a")); ok || r.pending() != 1 {
			t.Errorf("upstream holds it: %v; %d are pending", ok, r.pending())
		}
		d.free.Store(1 << 30)
		r.settleWithin(2 * time.Second)
		r.wantHeld(key("a"), "1")
	})
}
