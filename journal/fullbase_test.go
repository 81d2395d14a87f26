package journal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// On a disk without room for copies, a confirmed write is still copied if a newer write to the entry is
// pending. After a restart the newer write is compared with upstream's state, and the journal must know
// that no other host wrote that.
func TestBaseOfANewerWriteOutlivesAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reserve = 1 << 20
		fs := vfs.NewCrashableMem()
		d := &disk{FS: fs}
		d.free.Store(1 << 30)
		j := open(t, d, func(o *journal.Options) { o.DiskReserve = reserve })
		first := put(t, j, key("a"), "1")
		put(t, j, key("a"), "2")
		alone := put(t, j, key("b"), "1")
		d.free.Store(reserve - 1)
		time.Sleep(time.Second)
		no(t, j.Settle(first))
		no(t, j.Settle(alone))
		j = open(t, crash(fs))
		for id, want := range map[journal.ID]journal.Base{
			key("a"): {
				Known: true, Present: true, Content: journal.ContentOf(journal.Put, "1"), Origin: journal.Origin{Seq: first.Seq},
				UpdatedAt: first.UpdatedAt,
			},
			key("b"): {},
		} {
			got, err := j.Fence.Base(id)
			no(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", id, diff)
			}
		}
	})
}
