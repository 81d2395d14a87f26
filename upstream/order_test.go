package upstream_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// wantInOrder expects upstream to have got the last write of each entry in the order of
// those writes.
func wantInOrder(t *testing.T, r *rig, want []string) {
	t.Helper()
	at := make(map[string]int)
	for i, c := range r.requests(call.write) {
		at[c.id.Key] = i
	}
	if !slices.IsSortedFunc(want, func(a, b string) int { return at[a] - at[b] }) {
		t.Errorf("upstream got them at %v", at)
	}
}

// A backlog that takes some seconds goes upstream in the order of the writes: written at
// once, in an outage, before a restart, or flushed.
func TestABacklogIsSentInTheOrderOfItsWrites(t *testing.T) {
	const n = 105
	written := func(r *rig) (keys []string) {
		for i := range n {
			k := fmt.Sprint((i * 37) % n) // no order of names
			keys = append(keys, k)
			r.put(key(k), "v")
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		}
		for _, k := range []string{keys[3], keys[50]} { // and some are written again
			keys = append(slices.DeleteFunc(keys, func(other string) bool { return other == k }), k)
			r.put(key(k), "again")
		}
		return keys
	}
	for name, test := range map[string]func(r *rig) []string{
		"at once": func(r *rig) []string { return written(r) },
		"after an outage": func(r *rig) []string {
			r.set(func(f *fake) { f.down = true })
			keys := written(r)
			time.Sleep(10 * time.Minute)
			r.set(func(f *fake) { f.down = false })
			return keys
		},
		"after one in which it answered": func(r *rig) []string {
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
			flush(r.t.(*testing.T), r, "", time.Minute)
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
				wantInOrder(t, r, keys)
			})
		})
	}
}

// More than that is sent at once by many: in a tenth of the time at least.
func TestALongBacklogIsStaggered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 2000 {
			r.put(key(fmt.Sprint(i)), "v")
		}
		r.settleWithin(2000 * r.latency / 10)
		moved := 0
		for i, c := range r.requests(anything) {
			n, err := strconv.Atoi(c.id.Key)
			if err != nil || max(n-i, i-n) > concurrency {
				moved++
			}
		}
		if moved > 0 {
			t.Errorf("%d were sent far from their place", moved)
		}
	})
}
