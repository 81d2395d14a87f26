package flush_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// wantOldestFirst checks that upstream got the last write of each entry roughly in the order of those
// writes. Requests in flight together may overtake each other, and so may the probes that find upstream
// back after an outage.
func wantOldestFirst(t *testing.T, r *rig, want []string, probes int) {
	t.Helper()
	var got []string
	for _, c := range r.requests(call.write) {
		got = append(slices.DeleteFunc(got, func(other string) bool { return other == c.id.Key }), c.id.Key)
	}
	for i, k := range want {
		if at := slices.Index(got, k); max(at-i, i-at) >= concurrency {
			if probes--; probes < 0 {
				t.Errorf("write %d to %s arrived as %d", i, k, at)
			}
		}
	}
}

// A backlog goes upstream oldest first: written at once, in an outage, before a restart, or flushed.
func TestABacklogIsSentOldestFirst(t *testing.T) {
	const n = 105
	written := func(r *rig) (keys []string) {
		for i := range n {
			k := fmt.Sprint((i * 37) % n) // not in the order of names
			keys = append(keys, k)
			r.put(key(k), "v")
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		}
		for _, k := range []string{keys[3], keys[50]} { // some are written again
			keys = append(slices.DeleteFunc(keys, func(other string) bool { return other == k }), k)
			r.put(key(k), "again")
		}
		return keys
	}
	const after = "after an outage"
	for name, test := range map[string]func(r *rig) []string{
		"at once": func(r *rig) []string { return written(r) },
		after: func(r *rig) []string {
			r.set(func(f *fake) { f.down = true })
			keys := written(r)
			time.Sleep(10 * time.Minute)
			r.set(func(f *fake) { f.down = false })
			return keys
		},
		after + " in which it answered": func(r *rig) []string {
			r.set(func(f *fake) { f.answer = func(call) reply { return reply{status: 503} } })
			keys := written(r)
			time.Sleep(10 * time.Minute)
			r.set(func(f *fake) { f.answer, f.calls = nil, nil })
			return keys
		},
		"throttled": func(r *rig) []string {
			r.set(func(f *fake) { f.answer = func(call) reply { return throttled("30") } })
			keys := written(r)
			time.Sleep(time.Minute)
			r.set(func(f *fake) { f.answer, f.calls = nil, nil })
			return keys
		},
		"flushed": func(r *rig) []string {
			r.linger.Store(int64(time.Hour))
			keys := written(r)
			flushNow(r.t.(*testing.T), r, "", time.Minute)
			return keys
		},
		"after a restart": func(r *rig) []string {
			r.linger.Store(int64(time.Hour))
			keys := written(r)
			*r = *r.reopen()
			return keys
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				keys := test(r)
				r.settleWithin(time.Minute)
				wantOldestFirst(t, r, keys, strings.Count(name, after))
			})
		})
	}
}

// A longer backlog also goes oldest first, without a search for the oldest write.
func TestALongBacklogIsSentOldestFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var keys []string
		for i := range 2000 {
			keys = append(keys, fmt.Sprint(i))
		}
		r.putMany("ns", len(keys))
		r.settleWithin(2000 * r.latency / 10)
		wantOldestFirst(t, r, keys, 0)
	})
}

// An entry that fails waits for its backoff, and later entries do not wait for it.
func TestASickEntryIsOvertaken(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if c.id.Key == "sick" {
				return reply{status: 503}
			}
			return reply{}
		}
		r.put(key("sick"), "v")
		for i := range 600 {
			r.put(key(fmt.Sprint(i)), "v")
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		sick := len(r.requests(func(c call) bool { return c.id.Key == "sick" }))
		others := len(r.requests(in("ns"))) - sick
		if sick < 3 || sick > 15 || others != 600 {
			t.Errorf("%d requests for the sick entry in a minute, and %d for 600 others", sick, others)
		}
		if pending := r.pending(); pending != 1 {
			t.Errorf("%d are pending, want the sick one", pending)
		}
	})
}
