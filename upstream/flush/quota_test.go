package flush_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// A day of 20,000 writes to 40 keys takes at most the 1,000 requests that upstream allows, and upstream
// refuses none. A quiet namespace beside it is not slowed down.
func TestAQuotaLastsTheDay(t *testing.T) {
	metered(t, quota.Limit{Writes: 1000, Period: day, MaxAge: 15 * time.Minute}, func(t *testing.T, r *rig, m *meter) {
		busy, quiet := &agent{make(map[string][]time.Time)}, &agent{make(map[string][]time.Time)}
		start := time.Now()
		var lives sync.WaitGroup
		lives.Go(func() { busy.live(r, "busy", 20_000, 40, rand.New(rand.NewPCG(1, 1))) })
		lives.Go(func() {
			for i := range 200 {
				time.Sleep(time.Until(start.Add(time.Duration(i) * day / 200)))
				r.put(journal.ID{Namespace: "quiet", Key: "k"}, strconv.Itoa(i))
				quiet.written["k"] = append(quiet.written["k"], time.Now())
			}
		})
		lives.Wait()
		time.Sleep(time.Until(start.Add(day - time.Second)))
		taken, _ := m.sum("busy")
		report := r.report("busy")
		if taken > 1000 || taken < 900 || report.Used != taken || report.Left != 1000-taken {
			t.Errorf("upstream has taken %d of 1000 writes by the end of the day; the status says %+v", taken, report)
		}
		r.settleWithin(time.Minute)
		if _, refused := m.sum(""); refused > 0 {
			t.Errorf("upstream has refused %d requests", refused)
		}
		ages := busy.ages(t, r, "busy")
		t.Logf("%d requests for 20,000 writes; age of a write: p50 %v, p99 %v, at most %v", taken,
			ages[len(ages)/2].Round(time.Second), ages[len(ages)*99/100].Round(time.Second), ages[len(ages)-1].Round(time.Second))
		if oldest := ages[len(ages)-1]; oldest > 2*time.Hour {
			t.Errorf("a write was pending for %v", oldest)
		}
		if ages := quiet.ages(t, r, "quiet"); ages[len(ages)-1] > linger+r.latency {
			t.Errorf("a write of the quiet namespace took %v", ages[len(ages)-1])
		}
	})
}

// An ample quota has no effect: one agent's writes are sent after the linger.
func TestAnAmpleQuotaDelaysNothing(t *testing.T) {
	metered(t, quota.Limit{Writes: 1000, Period: day, MaxAge: 15 * time.Minute}, func(t *testing.T, r *rig, _ *meter) {
		a := &agent{make(map[string][]time.Time)}
		for i := range 90 {
			k := fmt.Sprint(i % 7)
			r.put(key(k), strconv.Itoa(len(a.written[k])))
			a.written[k] = append(a.written[k], time.Now())
			time.Sleep(time.Second)
		}
		if ages := a.ages(t, r, "ns"); ages[len(ages)-1] > linger {
			t.Errorf("a write took %v", ages[len(ages)-1])
		}
		if got := r.report("ns"); got.Linger != linger || got.Used != 90 || got.Left != 910 || !got.ResetsAt.Equal(time.Now().Truncate(day).Add(day)) {
			t.Errorf("%+v", got)
		}
	})
}

// busyUntilSpread writes to some keys until the quota is short.
func busyUntilSpread(t *testing.T, r *rig) {
	t.Helper()
	for i := 0; r.report("ns").Linger <= time.Minute; i++ {
		if i > 20_000 {
			t.Fatalf("the writes are not spread: %+v", r.report("ns"))
		}
		r.put(key(fmt.Sprint("busy", i%40)), fmt.Sprint(i))
		time.Sleep(time.Second)
	}
}

// While the writes of a namespace are spread, deletes and writes that a caller waits for have a
// reserve. A flush may use all that is left, and no more.
func TestWhoNeedsNotWaitForTheQuota(t *testing.T) {
	metered(t, quota.Limit{Writes: 1000, Period: day, MaxAge: 15 * time.Minute}, func(t *testing.T, r *rig, m *meter) {
		busyUntilSpread(t, r)
		other := journal.ID{Namespace: "other", Key: "k"}
		r.put(other, "v")
		r.del(key("busy1"))
		r.within(linger+r.latency+10*time.Millisecond, "the delete is upstream", func() bool { return !has(r, key("busy1")) })
		r.put(key("plain"), "v")
		for i := range 49 {
			w := r.put(key("awaited"), fmt.Sprint(i))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if !r.flusher.Await(ctx, w.ID, w.Seq) {
				t.Errorf("write %d was awaited in vain: %+v", i, r.report("ns"))
			}
			cancel()
		}
		if has(r, key("plain")) {
			t.Error("a plain write took part of the reserve")
		}
		// The reserve is used up: an awaited write waits for its turn.
		w := r.put(key("awaited"), "more")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r.flusher.Await(ctx, w.ID, w.Seq) {
			t.Error("a write that was awaited did not wait for its turn")
		}
		if why, until := r.flusher.EntryWaits(key("plain")); !strings.HasPrefix(why, "quota: ") || until.IsZero() {
			t.Errorf("the status says %q, until %v", why, until)
		}
		flushNow(t, r, "", time.Minute)
		if r.pending() != 0 {
			t.Errorf("%d are pending after a flush", r.pending())
		}
		for i := range 1000 {
			r.put(key(fmt.Sprint("flushed", i)), "v")
		}
		if got, _, _ := flushNow(t, r, "", time.Minute); got.Pending == 0 {
			t.Error("a flush has gone beyond the quota")
		}
		if taken, refused := m.sum("ns"); taken != 1000 || refused != 0 {
			t.Errorf("upstream has taken %d, and refused %d", taken, refused)
		}
		why, until := r.flusher.Waits("ns")
		if want := time.Now().Truncate(day).Add(day); !strings.Contains(why, "used up") || until.Sub(want).Abs() > time.Second {
			t.Errorf("the status says %q, until %v", why, until)
		}
		sleepUntilNext(day)
		r.settleWithin(linger + time.Minute)
	})
}

// A write that the quota keeps back for longer than flush.linger says so, and is sent by then.
func TestALongLingerIsAWaitForTheQuota(t *testing.T) {
	metered(t, quota.Limit{Writes: 40, Period: day, MaxAge: 15 * time.Minute}, func(t *testing.T, r *rig, _ *meter) {
		r.putMany("ns", 30)
		flushNow(t, r, "", time.Minute)
		r.put(key("k"), "v")
		if why, _ := r.flusher.Waits("ns"); why != "" {
			t.Errorf("within flush.linger, it waits because %q", why)
		}
		time.Sleep(linger + time.Second)
		why, until := r.flusher.Waits("ns")
		if entry, same := r.flusher.EntryWaits(key("k")); why != "quota: spread over the window" || entry != why || !same.Equal(until) || time.Until(until) < 10*time.Minute {
			t.Fatalf("it waits for %v because %q, its entry because %q until %v", time.Until(until), why, entry, same)
		}
		time.Sleep(time.Until(until) / 2)
		if has(r, key("k")) {
			t.Error("it was sent much earlier")
		}
		r.settleWithin(time.Until(until) + time.Minute)
	})
}

func has(r *rig, id journal.ID) bool {
	_, ok := r.holds(id)
	return ok
}

// A drain at shutdown may use what is left of the quota, and then gives up: the rest stays in the
// journal.
func TestADrainKeepsToTheQuota(t *testing.T) {
	metered(t, quota.Limit{Writes: 50, Period: day, MaxAge: 15 * time.Minute}, func(t *testing.T, r *rig, m *meter) {
		r.putMany("ns", 80)
		time.Sleep(linger)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		if got := r.flusher.Drain(ctx); got.Settled+got.Pending != 80 || r.pending() != 30 {
			t.Errorf("%+v, and %d are pending", got, r.pending())
		}
		if taken, refused := m.sum("ns"); taken != 50 || refused != 0 {
			t.Errorf("upstream has taken %d, and refused %d", taken, refused)
		}
		if took := time.Since(start); took > 50*2*r.latency {
			t.Errorf("the drain took %v", took)
		}
	})
}

// A restart preserves the exact count, and a crash loses at most a lease.
func TestTheCountOutlivesTheProcess(t *testing.T) {
	limit := quota.Limit{Writes: 1000, Period: day, MaxAge: 15 * time.Minute}
	metered(t, limit, func(t *testing.T, r *rig, m *meter) {
		r.putMany("ns", 300)
		flushNow(t, r, "", time.Minute)
		if used := r.report("ns").Used; used != 300 {
			t.Fatalf("%d are used", used)
		}
		fs := r.fs.(*vfs.MemFS)
		*r = *r.reopen()
		if used := r.report("ns").Used; used != 300 {
			t.Errorf("after a restart, %d are used", used)
		}
		for life := range 8 { // each ends within a lease, and sends all that it may
			r.putMany("ns", 110)
			flushNow(t, r, "", time.Minute)
			crashed := fs.CrashClone(vfs.CrashCloneCfg{})
			taken, _ := m.sum("ns")
			r.stop()
			fs = crashed
			*r = *newRigWithin(t, r.fake, fs, r.quota)
			if used := r.report("ns").Used; used < taken || used > taken+(life+1)*limit.Writes/50 {
				t.Errorf("life %d: upstream has taken %d, and after a crash %d are used", life, taken, used)
			}
		}
		r.putMany("ns", 110)
		flushNow(t, r, "", time.Minute)
		if taken, refused := m.sum("ns"); refused > 0 || taken > 1000 || taken < 800 {
			t.Errorf("upstream has taken %d, and refused %d", taken, refused)
		}
		sleepUntilNext(day)
		r.settleWithin(time.Minute)
	})
}

// Two daemons write to one namespace without knowing of each other. Each waits after the first refusal
// as long as upstream says.
func TestTwoDaemonsOfOneQuotaWaitAfterARefusal(t *testing.T) {
	limit := quota.Limit{Writes: 200, Period: time.Hour, MaxAge: time.Minute}
	metered(t, limit, func(t *testing.T, r *rig, m *meter) {
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

// An upstream that accepts less than the quota refuses once, and gets no request for as long as it has
// said. The next window begins with the whole quota.
func TestARefusalIsBelieved(t *testing.T) {
	limit := quota.Limit{Writes: 1000, Period: day, MaxAge: 15 * time.Minute}
	metered(t, limit, func(t *testing.T, r *rig, m *meter) {
		m.limit = 60
		r.putMany("ns", 80)
		flushNow(t, r, "", time.Minute)
		if got := r.report("ns"); got.Limit != 1000 || got.Used != 60 || got.Left != 0 {
			t.Errorf("%+v", got)
		}
		time.Sleep(day / 2)
		if _, refused := m.sum("ns"); refused > concurrency {
			t.Errorf("upstream has refused %d", refused)
		}
		m.limit = 1000
		sleepUntilNext(day)
		r.settleWithin(time.Minute)
		if got := r.report("ns"); got.Limit != 1000 || got.Used != 20 || got.Left != 980 {
			t.Errorf("%+v", got)
		}
	})
}

// After a wait that ends within the window, the count continues. If upstream names no time, it is
// retried rarely.
func TestARefusalThatEndsSoon(t *testing.T) {
	limit := quota.Limit{Writes: 1000, Period: day, MaxAge: 15 * time.Minute}
	metered(t, limit, func(t *testing.T, r *rig, m *meter) {
		time.Sleep(day / 2)
		r.set(func(f *fake) { f.answer = func(call) reply { return throttled("20") } })
		r.put(key("k"), "v")
		time.Sleep(time.Second)
		if got := r.report("ns"); got.Left != 0 || got.Used != 0 {
			t.Errorf("%+v", got)
		}
		r.set(func(f *fake) { f.answer = nil })
		r.settleWithin(20 * time.Second)
		if got := r.report("ns"); got.Used != 1 || got.Left != 999 {
			t.Errorf("%+v", got)
		}
		m.silent, m.limit = true, 0
		r.set(func(f *fake) { f.answer = m.answer })
		r.put(key("k"), "w")
		time.Sleep(6 * time.Hour)
		if _, refused := m.sum("ns"); refused > 60 {
			t.Errorf("upstream was asked %d times in vain", refused)
		}
		m.silent, m.limit = true, 1000
		r.flusher.TryNow("ns")
		r.settleWithin(time.Second)
	})
}

// A request counts as soon as upstream may have counted it.
func TestWhatCountsForTheQuota(t *testing.T) {
	for name, row := range map[string]struct {
		fails func(f *fake)
		used  int
	}{
		"refuses connections": {func(f *fake) { f.down = true }, 1},
		"fails":               {func(f *fake) { f.answer = func(c call) reply { return reply{status: []int{503, 0}[min(c.n, 1)]} } }, 2},
		"hangs":               {func(f *fake) { f.answer = func(c call) reply { return reply{hang: c.n == 0} } }, 2},
		"refuses for good":    {func(f *fake) { f.answer = func(c call) reply { return []reply{detail(413), {}}[min(c.n, 1)] } }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			metered(t, quota.Limit{Writes: 1000, Period: day, MaxAge: 15 * time.Minute}, func(t *testing.T, r *rig, _ *meter) {
				r.set(row.fails)
				r.put(key("k"), "v")
				time.Sleep(time.Minute)
				r.set(func(f *fake) { f.down = false })
				r.settleWithin(2 * time.Minute)
				if got := r.report("ns"); got.Used != row.used {
					t.Errorf("%+v, want %d used", got, row.used)
				}
			})
		})
	}
}

// A request in flight when a window ends may count in the next.
func TestARequestBetweenTwoWindows(t *testing.T) {
	metered(t, quota.Limit{Writes: 1000, Period: time.Hour}, func(t *testing.T, r *rig, _ *meter) {
		r.put(key("early"), "v")
		time.Sleep(time.Hour - linger - r.latency/5)
		r.put(key("k"), "v")
		time.Sleep(time.Minute)
		if got := r.report("ns"); got.Used != 1 || r.pending() != 0 {
			t.Errorf("%+v", got)
		}
		sleepUntilNext(time.Hour)
		if got := r.report("ns"); got.Used != 0 {
			t.Errorf("%+v in the window after that", got)
		}
	})
}

// If a quota is raised while its namespace waits, the namespace may send, at once if the flusher is
// told.
func TestAnotherQuota(t *testing.T) {
	limit := quota.Limit{Writes: 20, Period: day, MaxAge: 15 * time.Minute}
	metered(t, limit, func(t *testing.T, r *rig, m *meter) {
		m.limit = 1000
		r.settleWithin(time.Second) // the journal has been read
		r.stop()
		var mu sync.Mutex
		*r = *newRigWithin(t, r.fake, r.fs, func(string) quota.Limit { mu.Lock(); defer mu.Unlock(); return limit })
		r.putMany("ns", 200)
		flushNow(t, r, "", time.Minute)
		time.Sleep(20 * time.Second) // the flusher checks every minute by itself
		if taken, _ := m.sum("ns"); taken != 20 {
			t.Errorf("upstream has taken %d", taken)
		}
		mu.Lock()
		limit.Writes = 150
		mu.Unlock()
		r.quotas.Changed()
		time.Sleep(10 * time.Second)
		if taken, _ := m.sum("ns"); taken != 150 {
			t.Errorf("upstream has taken %d of 150 soon after the quota was raised", taken)
		}
		mu.Lock()
		limit.Writes = 1000
		mu.Unlock()
		r.settleWithin(2 * time.Minute)
	})
}

// A restart preserves what a namespace has used, and what is left of its reserve.
func TestTheUseAndTheReserveOutliveTheProcess(t *testing.T) {
	metered(t, quota.Limit{Writes: 1000, Period: day, MaxAge: 15 * time.Minute}, func(t *testing.T, r *rig, _ *meter) {
		busyUntilSpread(t, r)
		awaits := func(n int) bool {
			w := r.put(key("awaited"), fmt.Sprint(n))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return r.flusher.Await(ctx, w.ID, w.Seq)
		}
		for n := range 50 {
			if !awaits(n) {
				t.Fatalf("write %d was awaited in vain: %+v", n, r.report("ns"))
			}
		}
		was := r.report("ns")
		*r = *r.reopen()
		if got := r.report("ns"); was.Used == 0 || got.Used != was.Used {
			t.Errorf("after a restart %+v, before it %+v", got, was)
		}
		awaits(50) // is sent at once: the time of the last write is unknown
		if awaits(51) {
			t.Error("the reserve is full again after a restart")
		}
	})
}
