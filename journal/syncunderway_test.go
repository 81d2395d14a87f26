package journal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
)

// SyncUnderWay shows a sync that hangs while all writers wait for it, and only then.
func TestSyncUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newStalling()
		j := open(t, disk.fs)
		put(t, j, key("a"), "1")
		time.Sleep(time.Hour)
		if took := journal.SyncUnderWay(j); took != 0 {
			t.Errorf("an idle journal syncs for %s", took)
		}
		goOn := disk.stall()
		first, firstErr := later(putting(j, key("a"), "2"))
		first()
		time.Sleep(time.Minute)
		second, secondErr := later(putting(j, key("b"), "1"))
		if second() || first() {
			t.Error("the sync is not stalled")
		}
		if took := journal.SyncUnderWay(j); took != time.Minute {
			t.Errorf("the sync takes %s, want 1m", took)
		}
		goOn()
		if !first() || !second() || *firstErr != nil || *secondErr != nil {
			t.Errorf("%v, %v", *firstErr, *secondErr)
		}
		if took := journal.SyncUnderWay(j); took != 0 {
			t.Errorf("after its end it takes %s", took)
		}
	})
}
