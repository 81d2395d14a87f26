package memory

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// If a write settles without a copy, just after upstream's 404 for its entry, the absence does not hide it.
func TestAnAbsenceHidesNoWriteThatLeftNoCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := &fillingDisk{}
		r := newRig(t, func(o *journal.Options, _ *Options) { free.FS, o.FS, o.DiskReserve = o.FS, free, 1<<20 })
		k := id("n", "k")
		lease := r.cache.Lease(entryKey(k))
		defer lease.Release()
		_, err := r.journal.Fill(k, nil, func() bool { return !lease.Revoked() })
		noError(t, err)
		r.put(k, "mine")
		free.full.Store(true)
		time.Sleep(time.Second) // the journal notices
		r.upstream.set(k, "mine")
		r.settle(k)
		_, err = r.rememberAbsence(k, func() bool { return lease.Changes() == 1 })
		noError(t, err)
		synctest.Wait() // the cache stores it
		r.wantValue(k, "mine")
	})
}

// fillingDisk has no free space once it is full.
type fillingDisk struct {
	vfs.FS
	full atomic.Bool
}

func (d *fillingDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if d.full.Load() {
		return vfs.DiskUsage{}, nil
	}
	return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
}
