package flush_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// contract 16: entries that upstream never answers leave room for other namespaces, from their first
// requests on, and while they alone make upstream look down.
func TestHangingNamespacesDelayNoOther(t *testing.T) {
	for _, sick := range []int{1, 2} {
		for _, entries := range []int{40, 400} {
			t.Run(fmt.Sprint(sick, "of", entries), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					r.answer = func(c call) reply { return reply{hang: c.id.Namespace != "healthy"} }
					for i := range entries {
						for n := range sick {
							r.put(journal.ID{Namespace: fmt.Sprint("sick", n), Key: fmt.Sprint(i)}, "v")
						}
					}
					for i := range 100 {
						time.Sleep(3700 * time.Millisecond)
						id, written := journal.ID{Namespace: "healthy", Key: fmt.Sprint(i)}, time.Now()
						r.put(id, "v")
						r.within(20*time.Second, "a healthy write is upstream", held(r, id))
						if took := time.Since(written); took > linger+r.latency+100*time.Millisecond {
							t.Errorf("a healthy write took %v at %v", took, time.Now())
						}
					}
				})
			})
		}
	}
}

// A namespace whose requests have failed at once, and that is well again, need not wait for a probe that hangs either.
func TestANamespaceThatIsWellAgainWaitsForNoProbe(t *testing.T) {
	for i := range 12 {
		outage := 2*time.Minute + time.Duration(i)*time.Second
		t.Run(outage.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = func(c call) reply {
					if c.id.Namespace == "failing" {
						return reply{status: 500, body: "<html>"}
					}
					return reply{hang: true}
				}
				r.putMany("sick", 40)
				r.putMany("failing", 40)
				time.Sleep(outage)
				r.set(func(f *fake) { f.answer = func(c call) reply { return reply{hang: c.id.Namespace == "sick"} } })
				back := time.Now()
				r.within(time.Minute, "its first entry is upstream", held(r, journal.ID{Namespace: "failing", Key: "0"}))
				if took := time.Since(back); took > timeout/2 {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A namespace that has long sent alone also leaves room for another one when its requests begin to
// hang.
func TestANamespaceThatWasAloneLeavesRoom(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.putMany("sick", 8000)
		time.Sleep(5 * time.Second)
		if n := len(r.requests(anything)); n < 4*mostWrites*int(time.Second/r.latency) {
			t.Errorf("%d requests in 5 s: it does not hold %d slots", n, mostWrites)
		}
		r.set(func(f *fake) {
			f.answer = func(c call) reply { return reply{hang: c.id.Namespace == "sick"} }
		})
		for i := range 40 {
			time.Sleep(time.Second)
			id, written := journal.ID{Namespace: "healthy", Key: fmt.Sprint(i)}, time.Now()
			r.put(id, "v")
			r.within(20*time.Second, "a healthy write is upstream", held(r, id))
			if took := time.Since(written); took > linger+r.latency+overtake {
				t.Errorf("a healthy write took %v at %v", took, time.Now())
			}
		}
	})
}

// The flusher tries one entry of a namespace at a time whose request hung: the other entries use the
// namespace's slots.
func TestEntriesThatTimedOutAreTriedAlone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply { return reply{hang: c.id.Key[0] == 's'} }
		for i := range 40 {
			r.put(key(fmt.Sprint("sick", i)), "v")
		}
		time.Sleep(15 * time.Minute) // each was tried
		late := 0
		for i := range 1000 {
			time.Sleep(500 * time.Millisecond)
			id, written := key(fmt.Sprint(i)), time.Now()
			r.put(id, "v")
			r.within(3*timeout, "a healthy write is upstream", held(r, id))
			if i > 0 && time.Since(written) > linger+r.latency+overtake {
				late++
			}
		}
		r.set(func(f *fake) { f.peak = f.running })
		time.Sleep(10 * time.Minute)
		peak := 0
		r.set(func(f *fake) { peak = f.peak })
		if late > 0 || peak > 2 {
			t.Errorf("%d healthy writes were late; %d requests at once in the end", late, peak)
		}
	})
}

// overtake is the longest time that an untried entry may make the next one wait.
const overtake = 500 * time.Millisecond

// No namespace holds all slots, so the next write of another one finds a slot.
func TestOneNamespaceHoldsNoMoreThanItsPart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = time.Second
		r.putMany("flood", 2000)
		time.Sleep(30 * time.Second)
		for i := range 5 {
			time.Sleep(1234 * time.Millisecond)
			id, written := key(fmt.Sprint(i)), time.Now()
			r.put(id, "v")
			r.within(5*time.Second, "the other's write is upstream", held(r, id))
			if took := time.Since(written); took > linger+r.latency+50*time.Millisecond {
				t.Errorf("it took %v", took)
			}
		}
	})
}

// Busy namespaces have about the same number of requests each, no matter who wrote first: namespaces
// with much to send, and namespaces that send one entry after the other.
func TestBusyNamespacesShareEqually(t *testing.T) {
	for namespaces, entries := range map[int]int{5: 1000, 24: 100} {
		t.Run(fmt.Sprint(namespaces), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				for n := range namespaces {
					for i := range entries {
						r.put(journal.ID{Namespace: fmt.Sprint("busy", n), Key: fmt.Sprint(i)}, "v")
					}
					time.Sleep(time.Millisecond)
				}
				time.Sleep(3 * time.Second)
				all := len(r.requests(anything))
				for n := range namespaces {
					if got := len(r.requests(in(fmt.Sprint("busy", n)))); got < all/namespaces/2 {
						t.Errorf("namespace %d has had %d of %d requests", n, got, all)
					}
				}
			})
		})
	}
}

// A namespace whose requests fail slowly has one of them in flight at a time.
func TestANamespaceThatFailsHasOneRequestUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if c.id.Namespace == "sick" {
				return reply{status: 500, body: "oops", after: 5 * time.Second}
			}
			return reply{}
		}
		r.putMany("sick", 400)
		for i := range 180 {
			time.Sleep(time.Second)
			r.put(key(fmt.Sprint(i)), "v")
		}
		began := time.Now().Add(-time.Minute)
		n := len(r.requests(func(c call) bool { return c.id.Namespace == "sick" && c.at.After(began) }))
		if n > 13 {
			t.Errorf("%d requests of the namespace in the last minute, of 5 s each", n)
		}
	})
}
