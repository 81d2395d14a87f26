package flush_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/flush"
	"github.com/botwired/botwired/upstream/quota"
)

// stalling is a ledger whose disk stalls.
type stalling struct {
	quota.Records
	stall atomic.Int64 // nanoseconds
}

func (s *stalling) Record(uses ...quota.Use) error {
	time.Sleep(time.Duration(s.stall.Load()))
	return s.Records.Record(uses...)
}

// contract 17: a write that follows its entry's last one within 250 ms needs no fence, but the disk stalls before it
// leaves. So upstream is asked.
func TestAWriteThatNeedsNoFenceBeforeADiskThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stall atomic.Int64 // nanoseconds
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
				time.Sleep(time.Duration(stall.Load()))
			}
			return nil
		}))
		r := openRig(&rig{fake: newShared(t), t: t, fs: fs, fenced: "a.test"})
		r.settledPut(key("other"), "v") // the journal's mark of what may be sent reaches a second ahead
		time.Sleep(time.Second - 2*linger - 2*r.latency)
		r.settledPut(key("k"), "base")
		r.put(key("k"), "mine")
		stall.Store(int64(5 * time.Second))
		time.Sleep(time.Second)
		r.foreign(key("k"), "theirs")
		stall.Store(0)
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "theirs")
		r.wantLetters(letter{"lost", false, journal.Put, "mine"})
	})
}

// contract 17: the quota's count is recorded anew between the fence and the write, as a window has begun, and the
// disk stalls. The fence's answer is then too old, and upstream is asked again.
func TestAFenceBeforeADiskThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed := quota.Limit{Writes: 1000, Period: time.Hour, MaxAge: time.Minute}
		fs, logger := vfs.NewMem(), slog.New(slog.DiscardHandler)
		ledger := &stalling{Records: quota.OpenLedger("journal.quota", fs, logger)}
		r := openRig(&rig{fake: newShared(t), t: t, fs: fs, fenced: "a.test", adjust: func(o *flush.Options) {
			o.Quotas = quota.New(quota.Options{Of: func(string) quota.Limit { return allowed }, Ledger: ledger, Logger: logger})
		}})
		r.settledPut(key("k"), "base")
		time.Sleep(time.Until(time.Now().Truncate(allowed.Period).Add(allowed.Period - linger - r.latency/2)))
		r.put(key("k"), "mine")
		time.Sleep(linger + r.latency/4)
		ledger.stall.Store(int64(5 * time.Second))
		time.Sleep(time.Second)
		r.foreign(key("k"), "theirs")
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "theirs")
		r.wantLetters(letter{"lost", false, journal.Put, "mine"})
	})
}
