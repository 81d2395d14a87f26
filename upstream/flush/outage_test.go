package flush_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
)

func TestOneProbeAtATimeWhileDown(t *testing.T) {
	for name, answer := range map[string]func(call) reply{
		"refusing": nil,
		"failing":  func(call) reply { return reply{status: 503, body: "busy"} },
		"silent":   func(call) reply { return reply{hang: true} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.down, r.answer = answer == nil, answer
				for i := range 300 {
					r.put(journal.ID{Namespace: fmt.Sprint("ns", i%3), Key: fmt.Sprint(i)}, "v")
				}
				time.Sleep(time.Minute) // the requests in flight at the beginning of the outage have ended
				r.set(func(f *fake) { f.peak, f.calls, f.dials = 0, nil, nil })
				time.Sleep(time.Hour)
				wantProbes(t, r, time.Hour)
			})
		})
	}
}

// probeMax is the longest wait between two probes; backoffMax does not apply here.
const probeMax = 4 * time.Second

func wantProbes(t *testing.T, r *rig, d time.Duration) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.dials
	if !r.down {
		at = nil
		for _, c := range r.calls {
			at = append(at, c.at)
		}
		if r.peak > 1 {
			t.Errorf("%d requests at once, want one", r.peak)
		}
	}
	if least, most := int(d/(probeMax+timeout)), int(d/(probeMax/3)); len(at) < least || len(at) > most {
		t.Errorf("%d probes in %v, want between %d and %d", len(at), d, least, most)
	}
	gaps := make(map[time.Duration]int)
	for i := 1; i < len(at); i++ {
		gap := at[i].Sub(at[i-1])
		gaps[gap]++
		if gap > probeMax+timeout {
			t.Errorf("%v between two probes", gap)
		}
	}
	if len(gaps) < len(at)/2 {
		t.Errorf("%d different waits among %d: no jitter", len(gaps), len(at))
	}
}

func TestBackoffGrowsWithJitterForEver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.down = true
		r.put(key("k"), "v")
		time.Sleep(12 * time.Hour / flush.Fewer)
		r.stop()
		want := backoffInitial
		for i := 1; i < len(r.dials); i++ {
			gap := r.dials[i].Sub(r.dials[i-1])
			if gap < want/2-time.Millisecond || gap > min(want*3/2+backoffInitial, probeMax)+time.Millisecond {
				t.Fatalf("wait %d is %v, want about %v", i, gap, want)
			}
			want = min(2*want, probeMax*2/3)
		}
		if len(r.dials) < 12*60*15/flush.Fewer { // it did not give up
			t.Errorf("%d attempts in half a day", len(r.dials))
		}
	})
}

func TestOutageOfHoursAndRecovery(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.down = true
		want := make(map[journal.ID]string)
		for i := range 10000 {
			id := journal.ID{Namespace: fmt.Sprint("ns", i%5), Key: fmt.Sprint(i % 500)}
			want[id] = fmt.Sprintf("%05d", i)
			r.put(id, want[id])
			if i%1000 == 0 {
				time.Sleep(30 * time.Minute)
			}
		}
		r.set(func(f *fake) { f.down = false })
		r.settleWithin(backoffMax + 10*time.Second)
		r.stop()
		if diff := cmp.Diff(want, r.entries); diff != "" {
			t.Errorf("upstream holds (-want +got):\n%s", diff)
		}
		if n := len(r.calls); n < 500 || n > 510 {
			t.Errorf("%d requests for 500 entries", n)
		}
	})
}

func TestRecoveryRampsUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.down = true
		r.putMany("ns", 200)
		time.Sleep(10 * time.Minute)
		r.set(func(f *fake) { f.down, f.latency = false, time.Second })
		r.settleWithin(2 * time.Minute)
		r.stop()
		start := r.calls[0].at
		inSecond := make(map[int]int)
		for _, c := range r.calls {
			inSecond[int(c.at.Sub(start)/time.Second)]++
		}
		if inSecond[0] != 1 || inSecond[1] > 2 || inSecond[2] > 4 || inSecond[3] > 8 {
			t.Errorf("requests by second: %v, want 1, 2, 4, 8 at most", inSecond)
		}
		if r.peak != mostWrites {
			t.Errorf("%d at once at most, want %d in the end", r.peak, mostWrites)
		}
	})
}

// TestSickEntriesHoldUpNoOther has entries that always fail, in different ways, with a healthy
// upstream.
func TestSickEntriesHoldUpNoOther(t *testing.T) {
	for name, sick := range map[string]reply{
		"failing":  {status: 500, body: "oops"},
		"silent":   {hang: true},
		"cut":      {cut: true},
		"wrong":    {status: 200, body: "<html>"},
		"too late": {status: 504},
	} {
		for _, n := range []int{2, 20} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					r.answer = func(c call) reply {
						if c.id.Namespace == "sick" {
							return sick
						}
						return reply{}
					}
					for i := range n {
						r.put(journal.ID{Namespace: "sick", Key: fmt.Sprint(i)}, "v")
					}
					time.Sleep(10 * time.Minute)
					r.put(key("first"), "v")
					r.within(backoffMax+timeout+time.Second, "a first healthy write is upstream", held(r, key("first")))
					steady(t, r)
				})
			})
		}
	}
}

// steady writes now and then for hours and expects every write upstream soon, except for a few from
// before the sick entries were known.
func steady(t *testing.T, r *rig) {
	t.Helper()
	late := 0
	for i := range 60 / flush.Fewer {
		id, written := key(fmt.Sprint(i)), time.Now()
		r.put(id, "v")
		r.within(backoffMax+2*timeout, "a healthy write is upstream", held(r, id))
		if time.Since(written) > linger+2*timeout {
			late++
		}
		time.Sleep(time.Duration(rand.IntN(120)) * time.Second)
	}
	if late > 5 {
		t.Errorf("%d of %d writes were late", late, 60/flush.Fewer)
	}
}

func held(r *rig, id journal.ID) func() bool {
	return func() bool { _, ok := r.holds(id); return ok }
}

func TestSickEntryDoesNotSlowOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply { return reply{hang: c.id.Key == "sick1" || c.id.Key == "sick2"} }
		r.put(key("sick1"), "v")
		r.put(key("sick2"), "v")
		time.Sleep(time.Minute)
		slow := 0
		for i := range 2000 {
			id := key(fmt.Sprint(i))
			r.put(id, "v")
			time.Sleep(250 * time.Millisecond)
			if _, ok := r.holds(id); !ok {
				slow++
			}
		}
		if slow > 60 { // at most one outage of at most one backoff
			t.Errorf("%d of 2,000 healthy writes were held up", slow)
		}
	})
}

// slowSettle takes a disk's time to settle one key.
type slowSettle struct {
	*journal.Journal
	key string
}

func (s slowSettle) Settle(w journal.Write) error {
	if w.Key == s.key {
		time.Sleep(300 * time.Millisecond)
	}
	return s.Journal.Settle(w)
}

// A write that upstream has carried out before it failed, and whose settling takes long, does not say that
// upstream is back.
func TestAnOlderAnswerDoesNotEndAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{fake: newFake(t), t: t, fs: vfs.NewMem()}
		r.adjust = func(o *flush.Options) { o.Journal = slowSettle{r.journal, "slow"} }
		openRig(r)
		r.put(key("slow"), "1")
		time.Sleep(linger + r.latency + time.Millisecond)
		r.set(func(f *fake) { f.answer = func(call) reply { return reply{status: 503, body: "<html>"} } })
		r.putMany("ns", 2)
		time.Sleep(2 * time.Second)
		if got, logged := r.health.Report(), r.log.take(); got.State != upstream.Down || strings.Contains(logged, "up again") {
			t.Errorf("upstream counts as %+v; logged:\n%s", got, logged)
		}
	})
}
