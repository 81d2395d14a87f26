package upstream_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/upstream"
)

// Of two daemons that write to one namespace, neither knows of the other. Each learns from
// the first refusal, and waits for as long as upstream says.
func TestTwoDaemonsLearnFromRefusals(t *testing.T) {
	quota := upstream.Quota{Writes: 200, Period: time.Hour, MaxAge: time.Minute}
	metered(t, quota, func(t *testing.T, r *rig, m *meter) {
		other := newRigWithin(t, r.fake, vfs.NewMem(), r.quota)
		start := time.Now()
		for i := range 4000 {
			for n, each := range []*rig{r, other} {
				each.put(key(fmt.Sprint(n, ".", i%10)), fmt.Sprint(i))
			}
			time.Sleep(time.Second / 2)
		}
		time.Sleep(time.Until(start.Add(time.Hour - time.Second)))
		taken, refused := m.sum("ns")
		t.Logf("two daemons: %d taken, %d refused", taken, refused)
		if taken > 200 || refused > 4 {
			t.Errorf("upstream has taken %d, and refused %d", taken, refused)
		}
		time.Sleep(2 * time.Second)
		r.settleWithin(10 * time.Minute)
		other.settleWithin(10 * time.Minute)
		for n := range 2 {
			for i := 3990; i < 4000; i++ {
				r.wantHeld(key(fmt.Sprint(n, ".", i%10)), fmt.Sprint(i))
			}
		}
	})
}

// An upstream that has taken less than the quota says so once, and is left alone: what it
// showed is the limit of this window. The next begins with less than the quota, too.
func TestARefusalLowersTheLimitOfTheWindow(t *testing.T) {
	quota := upstream.Quota{Writes: 1000, Period: day, MaxAge: 15 * time.Minute}
	metered(t, quota, func(t *testing.T, r *rig, m *meter) {
		m.limit = 60
		r.putMany("ns", 80)
		flush(t, r, "", time.Minute)
		if got := r.report("ns"); got.Limit != 60 || got.Used != 60 || got.Left != 0 {
			t.Errorf("%+v", got)
		}
		time.Sleep(day / 2)
		if _, refused := m.sum("ns"); refused > concurrency {
			t.Errorf("upstream has refused %d", refused)
		}
		m.limit = 1000
		sleepUntilNext(day)
		r.settleWithin(time.Minute)
		if got := r.report("ns"); got.Limit != 250 || got.Used != 20 {
			t.Errorf("%+v", got)
		}
	})
}

// Of two daemons that share a quota, each remembers for the next window what it got of it. So
// both have writes left to its end. When one of them is gone, the other takes the whole again.
func TestAShareOfAQuotaIsRemembered(t *testing.T) {
	quota := upstream.Quota{Writes: 100, Period: time.Hour, MaxAge: time.Minute}
	metered(t, quota, func(t *testing.T, r *rig, m *meter) {
		other := newRigWithin(t, r.fake, vfs.NewMem(), r.quota)
		random := rand.New(rand.NewPCG(1, 1))
		both := []*rig{r, other}
		window := func(rigs []*rig) (taken, refused int, oldest time.Duration) {
			takenBefore, refusedBefore := m.sum("ns")
			for end := time.Now().Truncate(quota.Period).Add(quota.Period); time.Now().Before(end); time.Sleep(10 * time.Second) {
				for n, each := range rigs {
					each.put(key(fmt.Sprint(n, ".", random.IntN(3))), "v")
					oldest = max(oldest, each.journal.Stats().OldestAge())
				}
			}
			taken, refused = m.sum("ns")
			return taken - takenBefore, refused - refusedBefore, oldest
		}
		const dry = 20 * time.Minute // with no share remembered, each window has twice as much without writes
		for n := range 5 {
			taken, refused, oldest := window(both)
			if taken < 75 || refused > 2 || n > 1 && oldest > dry {
				t.Errorf("window %d of two: %d taken, %d refused, the oldest write was %v old", n, taken, refused, oldest)
			}
		}
		other.stop()
		taken, refused := 0, 0
		for range 7 {
			taken, refused, _ = window([]*rig{r})
		}
		if taken < 95 || refused > 0 {
			t.Errorf("alone, it takes %d in the end, and %d are refused", taken, refused)
		}
	})
}
