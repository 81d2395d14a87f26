package flush_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// step is a request to one entry, with its time since the first one.
type step struct {
	Method string
	Value  string
	At     time.Duration
}

func stepsOf(calls []call) []step {
	var out []step
	for _, c := range calls {
		out = append(out, step{c.method, c.value, c.at.Sub(calls[0].at)})
	}
	return out
}

// contract 14: after an unanswered request, the newest state is sent as soon as upstream answers again.
// The write stays pending until nothing can land over it any more, and is then read back.
func TestNewestIsSentAtOnceAndReadBackAfterTheLateWindow(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply { return reply{hang: c.value == "old"} }
		r.put(key("k"), "old")
		time.Sleep(time.Second)
		r.put(key("k"), "middle")
		time.Sleep(timeout)
		r.wantHeld(key("k"), "middle")
		time.Sleep(timeout)
		r.put(key("k"), "new")
		time.Sleep(time.Second)
		r.wantHeld(key("k"), "new")
		why, until := r.flusher.EntryWaits(key("k"))
		if r.pending() != 1 || !strings.HasPrefix(why, "in doubt: ") {
			t.Errorf("%d are pending; it waits because %q", r.pending(), why)
		}
		r.settleWithin(time.Minute)
		got := stepsOf(r.requests(anything))
		if first := r.requests(anything)[0].at; !until.Equal(first.Add(timeout + lateWindow).Round(0)) {
			t.Errorf("it was to wait until %v, and the first was sent at %v", until, first)
		}
		if wait := got[1].At - timeout; wait < backoffInitial/2 || wait > 2*backoffInitial {
			t.Errorf("the next was sent %v after the first timed out", wait)
		}
		got[1].At = timeout
		want := []step{
			{http.MethodPut, "old", 0},
			{http.MethodPut, "middle", timeout},
			{http.MethodPut, "new", time.Second + 2*timeout},
			{http.MethodGet, "", timeout + lateWindow},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		r.wantHeld(key("k"), "new")
	})
}

// A service that dies with a request in flight, and comes back after a while, holds the newest state
// within five seconds.
func TestUpstreamHoldsTheNewestSoonAfterItsReturn(t *testing.T) {
	for _, outage := range []time.Duration{time.Second, 3 * time.Second, 12 * time.Second, 2 * time.Minute, 3 * time.Hour} {
		for name, gone := range map[string]func(*fake){
			"refusing": func(f *fake) { f.down = true },
			"failing":  func(f *fake) { f.answer = func(call) reply { return reply{status: 502, body: "<html>"} } },
			"cutting":  func(f *fake) { f.answer = func(call) reply { return reply{cut: true} } },
			"refusing, beside a namespace that hangs": func(f *fake) { f.down = true },
		} {
			t.Run(fmt.Sprint(name, outage), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					hangs := func(c call) reply { return reply{hang: c.id.Namespace == "sick"} }
					if strings.Contains(name, "hangs") {
						r.answer = hangs
						r.putMany("sick", 40)
						time.Sleep(10 * time.Minute)
					}
					r.set(func(f *fake) { f.answer = func(call) reply { return reply{cut: true} } })
					r.put(key("hot"), "0")
					time.Sleep(linger + time.Millisecond)
					r.set(gone)
					for i := range 50 {
						time.Sleep(outage / 50)
						r.put(key("hot"), fmt.Sprint(i))
					}
					r.set(func(f *fake) { f.down, f.answer = false, hangs })
					time.Sleep(5 * time.Second)
					r.wantHeld(key("hot"), "49")
					time.Sleep(lateWindow)
					if left := r.journal.PendingList("ns", 1); len(left) > 0 {
						t.Errorf("after the late window it is pending: %s", r.left())
					}
				})
			})
		}
	}
}

// The unanswered request may still land after a newer write has come, although the first confirmed
// write left the same state.
func TestTheSameStateMayLandLate(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if c.n == 0 {
				return reply{hang: true, late: timeout + lateWindow/2}
			}
			return reply{}
		}
		r.put(key("k"), "v")
		time.Sleep(timeout + 2*time.Second)
		r.wantHeld(key("k"), "v")
		r.put(key("k"), "newer")
		r.settleWithin(2 * lateWindow)
		r.wantHeld(key("k"), "newer")
		if got := r.requests(anything); len(got) < 4 {
			t.Errorf("got %+v, want three PUTs at least, and a GET", stepsOf(got))
		}
	})
}

// TestLateWriteNeverWins is contract 14: the first PUT times out and is carried out after the second,
// at any time until the late window has passed.
func TestLateWriteNeverWins(t *testing.T) {
	timings := []time.Duration{
		timeout - time.Millisecond, // just before the first times out
		timeout + backoffInitial/2, // about when the second is sent
		timeout + backoffInitial/2 + 20*time.Millisecond,
		timeout + backoffInitial,
		timeout + 3*backoffInitial/2,
		timeout + 3*backoffInitial/2 + 30*time.Millisecond,
		timeout + time.Second, // after the second was confirmed
		timeout + lateWindow/2,
		timeout + lateWindow - time.Second,
		timeout + lateWindow - time.Millisecond, // just before the second is read back
		timeout + lateWindow,
	}
	bubble(t, func(t *testing.T, r *rig) {
		late := timings[0]
		r.answer = func(c call) reply {
			if c.write() && c.n == 0 {
				return reply{hang: true, late: late - r.latency/2}
			}
			return reply{}
		}
		won := 0
		for trial := range 110 {
			late = timings[trial%len(timings)]
			id := key(fmt.Sprint(trial))
			r.put(id, "first")
			time.Sleep(time.Second)
			if trial%2 == 0 {
				r.put(id, "second")
			} else {
				r.del(id)
			}
			r.settleWithin(3 * time.Minute)
			time.Sleep(time.Minute)
			if value, ok := r.holds(id); value == "second" && trial%2 == 0 || !ok && trial%2 == 1 {
				won++
				continue
			}
			t.Errorf("the first won when it was carried out %v after it was sent", late)
		}
		if won != 110 {
			t.Errorf("the second won in %d of 110 trials", won)
		}
	})
}

func TestRestartWhileInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			return reply{hang: c.n == 0, late: map[bool]time.Duration{true: 29 * time.Second}[c.n == 0 && c.write()]}
		}
		r.put(key("k"), "old")
		time.Sleep(linger + time.Second)
		r.put(key("k"), "new")
		r = r.reopen()
		restarted := time.Now()

		time.Sleep(time.Second)
		r.wantHeld(key("k"), "new")
		if r.pending() != 1 {
			t.Error("it is settled, but the old one may still land")
		}
		r.settleWithin(3 * time.Minute)
		r.wantHeld(key("k"), "new")
		var got []step
		for _, c := range r.requests(anything)[1:] {
			got = append(got, step{c.method, c.value, c.at.Sub(restarted)})
		}
		want := []step{ // the old one lands a moment before the window ends
			{http.MethodPut, "new", linger},
			{http.MethodGet, "", lateWindow},
			{http.MethodPut, "new", lateWindow + r.latency},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests after the restart (-want +got):\n%s", diff)
		}
	})
}

func TestNewerWriteWhileReadBackIsNotHeldUp(t *testing.T) {
	for name, at := range map[string]time.Duration{
		"while it is sent":  timeout + 3*backoffInitial/2,
		"before the window": timeout + 5*time.Second,
		"near its end":      timeout + lateWindow - 2*time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = func(c call) reply { return reply{hang: c.value == "old"} }
				r.put(key("k"), "old")
				time.Sleep(linger + time.Second)
				r.put(key("k"), "new")
				time.Sleep(at - time.Second)
				r.put(key("k"), "newer")
				time.Sleep(time.Second)
				r.wantHeld(key("k"), "newer")
				if r.pending() == 0 {
					t.Error("it is settled, but the old one may still land")
				}
				r.settleWithin(time.Minute)
			})
		})
	}
}

func TestAnotherHostsWriteEndsNoReadBack(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply { return reply{hang: c.value == "old"} }
		r.put(key("k"), "old")
		time.Sleep(time.Second)
		r.put(key("k"), "new")
		r.within(time.Minute, "new is upstream", func() bool { v, _ := r.holds(key("k")); return v == "new" })
		r.set(func(f *fake) { f.entries[key("k")] = "foreign" })
		time.Sleep(lateWindow / 2)
		if r.pending() == 0 {
			t.Error("settled while the old one may still land")
		}
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "foreign")
	})
}

// A delete that is read back also settles if another host has written since. OnSettled is not called
// then, because upstream holds the other host's value.
func TestOnSettledGetsOnlyWhatUpstreamHolds(t *testing.T) {
	for name, foreign := range map[string]bool{"alone": false, "another host": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = func(c call) reply { return reply{hang: c.value == "old"} }
				r.put(key("k"), "old")
				time.Sleep(time.Second)
				deleted := r.del(key("k"))
				r.within(time.Minute, "the delete is upstream", func() bool {
					return len(r.requests(func(c call) bool { return c.method == http.MethodDelete })) > 0
				})
				if foreign {
					time.Sleep(time.Second)
					r.set(func(f *fake) { f.entries[key("k")] = "foreign" })
				}
				r.settleWithin(3 * time.Minute)
				r.stop()
				if called := slices.Contains(r.settled, deleted.Seq); called == foreign {
					t.Errorf("OnSettled got %v, and the delete is %d", r.settled, deleted.Seq)
				}
			})
		})
	}
}

func TestTwoHostsDoNotRepairEachOtherForEver(t *testing.T) {
	for name, pause := range map[string]time.Duration{"soon": time.Second, "at once": 26 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				up := r.fake
				up.answer = func(c call) reply {
					if c.write() && c.n == 0 {
						return reply{hang: true}
					}
					if c.write() {
						time.AfterFunc(pause, func() { up.set(func(f *fake) { f.entries[c.id] = "foreign" }) })
					}
					return reply{}
				}
				r.put(key("k"), "v")
				time.Sleep(linger + time.Second)
				r = r.reopen() // the new process does not know what the unanswered request would leave
				r.settleWithin(lateWindow + time.Second)
				if n := len(r.requests(call.write)); n != 2 {
					t.Errorf("%d writes", n)
				}
			})
		})
	}
}

// Another host may write exactly the value of our unanswered request. The flusher repairs that once.
func TestOneRepairIsEnough(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		up := r.fake
		up.answer = func(c call) reply {
			if c.value == "new" {
				time.AfterFunc(30*time.Millisecond, func() { up.set(func(f *fake) { f.entries[c.id] = "old" }) })
			}
			return reply{hang: c.value == "old"}
		}
		r.put(key("k"), "old")
		time.Sleep(time.Second)
		r.put(key("k"), "new")
		r.settleWithin(timeout + lateWindow + 2*time.Second)
		if n := len(r.requests(call.write)); n != 3 {
			t.Errorf("%d writes, want one that is not answered, one, and its repair", n)
		}
	})
}

func TestReadBackThatIsThrottledWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		throttled := false
		r.answer = func(c call) reply {
			if c.method == http.MethodGet && !throttled {
				throttled = true
				return reply{status: 429, header: http.Header{"Retry-After": {"77"}}, body: `{"detail":"slow"}`}
			}
			return reply{hang: c.value == "old"}
		}
		r.put(key("k"), "old")
		time.Sleep(time.Second)
		r.put(key("k"), "new")
		r.settleWithin(3 * time.Minute)
		steps := stepsOf(r.requests(func(c call) bool { return c.method == http.MethodGet }))
		if len(steps) < 2 || steps[1].At != 77*time.Second+r.latency {
			t.Errorf("read back at %+v, want 77s after the 429", steps)
		}
	})
}
