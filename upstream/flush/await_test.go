package flush_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/flush"
)

func flushNow(t *testing.T, r *rig, namespace string, limit time.Duration) (_ flush.Result, took time.Duration, _ error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	start := time.Now()
	settled, dead, pending, err := r.flusher.Flush(ctx, namespace)
	return flush.Result{Settled: settled, Dead: dead, Pending: pending}, time.Since(start), err
}

func TestFlush(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		other := journal.ID{Namespace: "other", Key: "k"}
		r.answer = func(c call) reply {
			switch {
			case c.id.Key == "bad":
				return detail(400)
			case c.id == other:
				return reply{hang: true}
			}
			return reply{}
		}
		for _, id := range []journal.ID{key("a"), key("b"), key("bad")} {
			r.put(id, "v")
		}
		r.put(other, "v")
		p, took, err := flushNow(t, r, "ns", time.Minute)
		if diff := cmp.Diff(flush.Result{Settled: 2, Dead: 1}, p); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if took > 3*r.latency+time.Millisecond { // one after the other
			t.Errorf("it took %v, want no linger", took)
		}
		p, took, err = flushNow(t, r, "", 5*time.Second)
		if !errors.Is(err, context.DeadlineExceeded) || p.Pending != 1 || took != 5*time.Second {
			t.Errorf("got %+v, %v after %v, want one left after 5s", p, took, err)
		}
		r.set(func(f *fake) { f.answer = nil })
		if p, _, err = flushNow(t, r, "", time.Hour); err != nil || p.Settled != 1 {
			t.Errorf("got %+v, %v", p, err)
		}
		if p, took, err = flushNow(t, r, "", time.Hour); err != nil || took != 0 || p != (flush.Result{}) {
			t.Errorf("with nothing pending: %+v, %v after %v", p, took, err)
		}
	})
}

func TestFlushWaitsForItsOwnWritesOnly(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = time.Second
		r.put(key("k"), "1")
		time.Sleep(linger + 100*time.Millisecond) // in flight
		r.put(key("k"), "2")
		go func() { // a busy key does not block a flush forever
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				r.put(key("k"), "later")
			}
		}()
		p, took, err := flushNow(t, r, "", time.Minute)
		if err != nil || p.Settled != 1 || took > 3*time.Second {
			t.Errorf("got %+v, %v after %v", p, took, err)
		}
		value, _ := r.holds(key("k"))
		if value == "1" {
			t.Error("the flush was over before its write was upstream")
		}
		time.Sleep(20 * time.Second)
	})
}

func TestDrain(t *testing.T) {
	const limit = 10 * time.Second
	for name, row := range map[string]struct {
		answer func(call) reply
		down   bool
		most   time.Duration
		left   int
	}{
		"up":        {nil, false, 500 * time.Millisecond, 0}, // the last few one after the other
		"down":      {nil, true, 100 * time.Millisecond, 20},
		"transient": {func(call) reply { return reply{status: 503} }, false, 2 * time.Second, 20},
		"silent":    {func(call) reply { return reply{hang: true} }, false, limit, 20},
		"forbidden": {func(call) reply { return detail(403) }, false, time.Second, 20},
	} {
		for _, before := range []time.Duration{0, 5 * time.Minute} {
			t.Run(fmt.Sprint(name, before), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					r.down, r.answer = row.down, row.answer
					if row.down && before == 0 {
						row.most = 2 * time.Second // upstream must first be found down
					}
					r.putMany("ns", 20)
					time.Sleep(before)
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					start := time.Now()
					p := r.flusher.Drain(ctx)
					if took := time.Since(start); took > row.most {
						t.Errorf("took %v, want %v at most", took, row.most)
					}
					if p.Pending != row.left && before == 0 {
						t.Errorf("got %+v, want %d left", p, row.left)
					}
				})
			})
		}
	}
}

func TestDrainFindsUpstreamBack(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.down = true
		r.putMany("ns", 100)
		time.Sleep(time.Hour)
		r.set(func(f *fake) { f.down = false })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if p := r.flusher.Drain(ctx); p.Settled != 100 {
			t.Errorf("got %+v, want all settled", p)
		}
	})
}

func TestStopsWithMuchToDo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.putMany("ns", 1000)
		time.Sleep(linger + 20*time.Millisecond)
		r.stop()
		if n := len(r.requests(anything)); n > concurrency {
			t.Errorf("%d requests, want those that were under way", n)
		}
	})
}

// TestCrashWhileFlushing cuts the power at many points of a flush, with lost and late answers. In the
// end upstream must hold the newest state.
func TestCrashWhileFlushing(t *testing.T) {
	for trial := range 25 {
		t.Run(fmt.Sprint(trial), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				r := newRig(t, newFake(t), fs)
				r.answer = func(c call) reply {
					switch {
					case c.n == 0 && c.id.Key[0] == '1':
						return reply{hang: true, late: 20 * time.Second}
					case c.n == 0 && c.id.Key[0] == '2':
						return reply{cut: true, applied: true}
					}
					return reply{}
				}
				want := make(map[journal.ID]string)
				for i := range 200 {
					id := key(fmt.Sprint(i % 40))
					want[id] = fmt.Sprint(trial, "-", i)
					r.put(id, want[id])
					if i%20 == 0 {
						time.Sleep(50 * time.Millisecond)
					}
				}
				time.Sleep(time.Duration(trial) * 9 * time.Millisecond)
				crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(trial), 1))})
				r.stop()
				time.Sleep(time.Second)
				r = newRig(t, r.fake, crashed)
				r.settleWithin(5 * time.Minute)
				time.Sleep(time.Minute)
				r.stop()
				if diff := cmp.Diff(want, r.entries); diff != "" {
					t.Errorf("upstream holds (-want +got):\n%s", diff)
				}
			})
		})
	}
}
