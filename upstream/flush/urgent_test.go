package flush_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// A flush sends all lingering entries at once, including those that newer writes have moved to the back
// of the line. Entries that are written after it linger.
func TestFlushEndsALongLinger(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.linger.Store(int64(10 * time.Minute))
		for _, k := range []string{"a", "b", "c", "a", "c", "a"} {
			r.put(key(k), "v")
			time.Sleep(time.Minute)
		}
		for _, namespace := range []string{"ns", ""} {
			_, took, err := flushNow(t, r, namespace, time.Hour)
			if err != nil || took > 3*r.latency+time.Millisecond {
				t.Errorf("a flush of %q: %v after %v", namespace, err, took)
			}
			for _, k := range []string{"a", "b", "c"} {
				r.wantHeld(key(k), "v")
				r.put(key(k), "v")
			}
		}
		r.put(key("late"), "v")
		time.Sleep(10*time.Minute - time.Second)
		if n := len(r.requests(anything)); n != 6 {
			t.Errorf("%d requests, want 6: what was written after the flush lingers", n)
		}
		r.settleWithin(2 * time.Second)
	})
}

// An entry that a caller waits for goes before all lingering ones, and the others keep lingering.
func TestAwaitEndsTheLingerOfOneEntry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.linger.Store(int64(10 * time.Minute))
		r.putMany("ns", 5)
		w := r.put(key("2"), "newer")
		start := time.Now()
		if !r.flusher.Await(t.Context(), w.ID, w.Seq) || time.Since(start) > 2*r.latency {
			t.Errorf("not settled, or after %v", time.Since(start))
		}
		r.wantHeld(key("2"), "newer")
		if n := len(r.requests(anything)); n != 1 {
			t.Errorf("%d requests, want the one for which the caller waits", n)
		}
		if !r.flusher.Await(t.Context(), w.ID, w.Seq) {
			t.Error("a write that has settled is not known to")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.set(func(f *fake) { f.answer = func(call) reply { return reply{hang: true} } })
		if w = r.put(key("2"), "newest"); r.flusher.Await(ctx, w.ID, w.Seq) {
			t.Error("a write that is pending is said to have settled")
		}
		r.set(func(f *fake) { f.answer = func(call) reply { return detail(400) } })
		if w = r.put(key("3"), "dead"); r.flusher.Await(t.Context(), w.ID, w.Seq) {
			t.Error("a dead letter is said to have settled")
		}
	})
}

// With any sequence of writes, flushes and failures, a flush returns exactly when all writes that were
// pending at its call are complete.
func TestFlushesAmidWrites(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			switch c.n % 5 {
			case 1:
				return reply{status: 503, body: "busy"}
			case 3:
				return detail(422)
			}
			return reply{}
		}
		id := func() journal.ID {
			return journal.ID{Namespace: fmt.Sprint("ns", rand.IntN(3)), Key: fmt.Sprint(rand.IntN(30))}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 3000 {
				r.put(id(), fmt.Sprint(i))
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			}
		})
		for range 20 {
			wg.Go(func() {
				for range 20 {
					time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
					namespace := []string{"", "ns0", "ns1"}[rand.IntN(3)]
					before := r.journal.PendingList(namespace, 1000)
					p, _, err := flushNow(t, r, namespace, 10*time.Minute)
					if err != nil || p.Pending != 0 {
						t.Errorf("%+v, %v", p, err)
					}
					left := make(map[journal.ID]uint64)
					for _, p := range r.journal.PendingList(namespace, 1000) {
						left[p.ID] = p.Seq
					}
					for _, p := range before {
						if left[p.ID] == p.Seq {
							t.Errorf("write %d to %s was pending before the flush and is after it", p.Seq, p.ID)
						}
					}
				}
			})
		}
		wg.Wait()
		r.settleWithin(time.Hour)
	})
}

// An entry that a caller waits for goes before a backlog.
func TestACallerDoesNotWaitForABacklog(t *testing.T) {
	for _, n := range []int{950, 1100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.latency = 200 * time.Millisecond
				r.putMany("ns", n)
				time.Sleep(2 * linger)
				for i := range 3 {
					start := time.Now()
					if w := r.put(key("caller"), fmt.Sprint(i)); !r.flusher.Await(t.Context(), w.ID, w.Seq) {
						t.Error("not settled")
					}
					if took := time.Since(start); took > 3*r.latency {
						t.Errorf("caller %d waited for %v", i, took)
					}
				}
				if r.pending() < n/2 {
					t.Error("the backlog was gone already")
				}
			})
		})
	}
}

// More callers than upstream can serve do not stop the entries that no caller waits for.
func TestCallersHoldUpNoOtherEntry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				for ctx.Err() == nil {
					w := r.put(key(fmt.Sprint("caller", i)), "v")
					r.flusher.Await(ctx, w.ID, w.Seq)
				}
			})
		}
		time.Sleep(time.Second)
		for i := 0; ctx.Err() == nil; i++ {
			r.put(key("busy"), fmt.Sprint(i))
			time.Sleep(10 * time.Millisecond)
		}
		wg.Wait()
		if n := len(r.requests(func(c call) bool { return c.id == key("busy") })); n < 15 {
			t.Errorf("the busy key was sent %d times in 19 s, want about one a second", n)
		}
	})
}
