package journal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// A copy of a confirmed write takes hardly any room, as its value is on the disk: a full disk keeps it, also when a
// reader changes it. After a restart, only the copy says that no other host has written what
// upstream holds.
func TestBaseOutlivesAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reserve = 1 << 20
		fs := vfs.NewCrashableMem()
		d := &disk{FS: fs}
		d.free.Store(1 << 30)
		j := open(t, d, func(o *journal.Options) { o.DiskReserve = reserve })
		settled := []journal.Write{put(t, j, key("alone"), "1"), put(t, j, key("beneath"), "1"), put(t, j, key("read"), "1")}
		put(t, j, key("beneath"), "2")
		d.free.Store(reserve - 1)
		time.Sleep(time.Second)
		for _, w := range settled {
			no(t, j.Settle(w))
		}
		no(t, second(j.Fill(key("read"), observed("1"), always)))
		j = open(t, crash(fs))
		for _, w := range settled {
			got, err := j.Fence.Base(w.ID)
			no(t, err)
			if got.Content != journal.ContentOf(journal.Put, "1") || got.Origin.Seq != w.Seq {
				t.Errorf("%s: %+v", w.ID, got)
			}
		}
	})
}

// On a nearly full disk, copies give way to writes, but the ones used last stay: a write that waits over a kill does
// not take this host's own state upstream for another's.
func TestFullDiskKeepsTheCopiesUsedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, j, writes := manyWrites(t, 200)
		for _, w := range writes {
			time.Sleep(time.Second)
			no(t, j.Settle(w))
		}
		lookup(t, j, key("0"))
		d.free.Store(reserve - 1)
		maintain(t, j, time.Minute)
		kept := 0
		for i := range writes {
			base, err := j.Fence.Base(key("%d", i))
			no(t, err)
			if base.Known {
				kept++
			}
			if last := i == 0 || i >= 190; last && !base.Known {
				t.Errorf("copy %d was used last and is gone", i)
			}
		}
		if kept > 21 {
			t.Errorf("%d copies of 100 KiB are kept", kept)
		}
		d.free.Store(1 << 30)
		time.Sleep(time.Second)
		put(t, j, key("0"), "another")
		check(t, j)
	})
}
