package flush_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

func TestCoalesces(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 1000 {
			r.put(key("k"), fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		r.settleWithin(2 * time.Second)
		if sent := r.requests(anything); len(sent) > 3 {
			t.Errorf("1,000 writes in a second took %d requests, want at most 3", len(sent))
		}
		r.wantHeld(key("k"), "999")
	})
}

func TestLingerLetsAnEntryComeToRest(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.put(key("k"), "1")
		time.Sleep(linger - time.Millisecond)
		r.put(key("k"), "2")
		last := time.Now()
		r.settleWithin(time.Second)
		sent := r.requests(anything)
		if len(sent) != 1 || sent[0].value != "2" || sent[0].at.Sub(last) != linger {
			t.Errorf("got %+v, want one request, a linger after the last write", sent)
		}
	})
}

func TestABusyKeyCannotPostponeItself(t *testing.T) {
	put := func(r *rig, i int) { r.put(key("busy"), fmt.Sprint(i)) }
	for name, write := range map[string]func(r *rig, i int){
		"puts": put,
		"puts and deletes": func(r *rig, i int) {
			if put(r, i); i%2 != 0 {
				r.del(key("busy"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) { testABusyKey(t, write) })
	}
}

func testABusyKey(t *testing.T, write func(r *rig, i int)) {
	bubble(t, func(t *testing.T, r *rig) {
		start := time.Now()
		for i := 0; time.Since(start) < time.Minute; i++ {
			write(r, i)
			time.Sleep(10 * time.Millisecond)
		}
		sent := r.requests(anything)
		if len(sent) < 50 || len(sent) > 65 {
			t.Errorf("%d requests in a minute, want about one a second", len(sent))
		}
		for i, c := range sent {
			since := start
			if i > 0 {
				since = sent[i-1].at
			}
			if gap := c.at.Sub(since); gap > 10*linger+2*r.latency {
				t.Errorf("request %d came %v after the one before", i, gap)
			}
		}
	})
}

func TestLocalOrderWithinAnEntry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = 300 * time.Millisecond
		for i := range 300 {
			r.put(key(fmt.Sprint(i%3)), fmt.Sprintf("%04d", i))
			time.Sleep(20 * time.Millisecond)
		}
		r.settleWithin(10 * time.Second)
		last := make(map[journal.ID]string)
		for _, c := range r.requests(anything) {
			if c.value <= last[c.id] {
				t.Errorf("%s got %s after %s", c.id, c.value, last[c.id])
			}
			last[c.id] = c.value
		}
		want := map[journal.ID]string{key("0"): "0297", key("1"): "0298", key("2"): "0299"}
		if diff := cmp.Diff(want, last); diff != "" {
			t.Errorf("last values (-want +got):\n%s", diff)
		}
	})
}

func TestConcurrencyIsCapped(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = time.Second
		for i := range 200 {
			r.put(journal.ID{Namespace: fmt.Sprintf("ns%d", i%7), Key: fmt.Sprint(i)}, "v")
		}
		r.settleWithin(time.Minute)
		if r.peak < mostWrites || r.peak > mostWrites+1 { // of a namespace that holds none
			t.Errorf("%d requests at once, want %d or one more", r.peak, mostWrites)
		}
	})
}

func TestPutThenDeleteAreNeverNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.entries[key("k")] = "from before"
		r.put(key("k"), "v")
		r.del(key("k"))
		r.settleWithin(time.Second)
		if got := r.requests(anything); len(got) != 1 || got[0].method != http.MethodDelete {
			t.Errorf("got %+v, want one DELETE", got)
		}
		if v, ok := r.holds(key("k")); ok {
			t.Errorf("upstream still holds %q", v)
		}
	})
}

func TestDeleteOfWhatUpstreamDoesNotHoldSettles(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.del(key("k"))
		r.settleWithin(time.Second)
		if got := r.requests(anything); len(got) != 1 {
			t.Errorf("got %+v, want one request", got)
		}
	})
}

func TestAWriteDuringARequestFollowsIt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = time.Second
		r.put(key("k"), "1")
		time.Sleep(linger + 500*time.Millisecond)
		r.put(key("k"), "2")
		r.settleWithin(10 * time.Second)
		var values []string
		for _, c := range r.requests(anything) {
			values = append(values, c.value)
		}
		if diff := cmp.Diff([]string{"1", "2"}, values); diff != "" {
			t.Errorf("values sent (-want +got):\n%s", diff)
		}
	})
}

func TestNamespacesTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = time.Second
		r.putMany("flood", 2000)
		time.Sleep(5 * time.Second)
		quiet := journal.ID{Namespace: "quiet", Key: "k"}
		r.put(quiet, "v")
		r.within(linger+2*r.latency+50*time.Millisecond, "the quiet namespace's write is upstream", func() bool {
			_, ok := r.holds(quiet)
			return ok
		})
		r.flusher.Changed(journal.Change{ID: quiet}) // not a write: no effect
		r.settleWithin(5 * time.Minute)
	})
}

// A busy key is sent repeatedly even if other keys are written all the time, faster than upstream can
// take. Its writes are always the newest, so by that order alone it would always come last.
func TestABusyKeyIsSentAmidOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = 200 * time.Millisecond
		start := time.Now()
		for i := 0; time.Since(start) < time.Minute; i++ {
			r.put(key("busy"), fmt.Sprint(i))
			for j := range 3 { // each of 99 others every 330 ms
				r.put(key(fmt.Sprint((3*i+j)%99)), "v")
			}
			time.Sleep(10 * time.Millisecond)
		}
		all := len(r.requests(anything))
		busy := r.requests(func(c call) bool { return c.id == key("busy") })
		if len(busy) < 10 || all < 3000 {
			t.Errorf("%d of %d requests in a minute are for the busy key, want one each four or five seconds", len(busy), all)
		}
	})
}
