package upstream_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// wantInOrder expects upstream to have got the last write of each entry in the order of
// those writes.
func wantInOrder(t *testing.T, r *rig, want []string) {
	t.Helper()
	wantInOrderIn(t, r, "ns", want)
}

func wantInOrderIn(t *testing.T, r *rig, namespace string, want []string) {
	t.Helper()
	at := make(map[string]int)
	for i, c := range r.requests(call.write) {
		if c.id.Namespace == namespace {
			at[c.id.Key] = i
		}
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

// A longer backlog goes out in requests that overlap, in a tenth of the time at most.
func TestALongBacklogIsStaggered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.putMany("ns", 2000)
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

// A blip, of any length around the backoffs, leaves no trace in upstream's order, however
// upstream fails meanwhile. Two namespaces are written, as the success of one ends the blip
// of the other.
func TestABlipKeepsTheOrderOfTheWrites(t *testing.T) {
	for name, fails := range map[string]func(f *fake){
		// All connections, or the order would depend on who has one: see excusesMax.
		"refuses": func(f *fake) {
			f.down = true
			f.server.SetKeepAlivesEnabled(false)
		},
		"answers 503": func(f *fake) { f.answer = func(call) reply { return reply{status: 503} } },
		"asks for a wait": func(f *fake) {
			f.answer = func(call) reply { return reply{status: 503, header: http.Header{"Retry-After": {"3"}}} }
		},
		"cuts": func(f *fake) { f.answer = func(call) reply { return reply{cut: true} } },
	} {
		for seed := range uint64(blips) {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) { blip(t, r, rand.New(rand.NewPCG(seed, 0)), fails) })
			})
		}
	}
}

// blips is how many seeds a test of blips takes.
const blips = 40 / upstream.Fewer

// blip writes for a while, over one outage or two.
func blip(t *testing.T, r *rig, random *rand.Rand, fails func(*fake)) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	r.latency = time.Millisecond + upTo(60*time.Millisecond)
	lengths := []time.Duration{150 * time.Millisecond, time.Second, 4 * time.Second}
	var outages [][2]time.Duration // how long it is well, and then not
	for range 1 + random.IntN(2) {
		outages = append(outages, [2]time.Duration{upTo(lengths[random.IntN(2)]), upTo(lengths[random.IntN(3)])})
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, o := range outages {
			time.Sleep(o[0])
			r.set(fails)
			time.Sleep(o[1])
			r.set(func(f *fake) {
				f.down, f.answer = false, nil
				f.server.SetKeepAlivesEnabled(true)
			})
		}
	}()
	pause := upTo(20 * time.Millisecond)
	keys := make(map[string][]string)
	for i := range 120 {
		id := journal.ID{Namespace: fmt.Sprint("ns", random.IntN(2)), Key: fmt.Sprint((i * 37) % 120)}
		keys[id.Namespace] = append(keys[id.Namespace], id.Key)
		r.put(id, "v")
		time.Sleep(pause)
	}
	<-over
	r.settleWithin(2 * time.Minute)
	for namespace, want := range keys {
		wantInOrderIn(t, r, namespace, want)
	}
}

// An entry that fails while others go well is sick itself: it waits for its backoff, and
// those that overtake it are not sent again for its sake for ever, even if upstream fails now
// and then for others, too.
func TestASickEntryIsOvertaken(t *testing.T) {
	for name, row := range map[string]struct {
		stumbles bool
		most     int // requests for the sick entry in a minute
		again    int // requests for others beyond one each
	}{"upstream is well": {false, 15, 3}, "upstream stumbles": {true, 40, 60}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = func(c call) reply {
					if c.id.Key == "sick" || row.stumbles && c.id.Namespace == "other" && c.n == 0 && rand.IntN(4) == 0 {
						return reply{status: 503}
					}
					return reply{}
				}
				r.put(key("sick"), "v")
				for i := range 600 {
					r.put(key(fmt.Sprint(i)), "v")
					r.put(journal.ID{Namespace: "other", Key: fmt.Sprint(i)}, "v")
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(10 * time.Second)
				sick := len(r.requests(func(c call) bool { return c.id.Key == "sick" }))
				others := len(r.requests(in("ns"))) - sick
				if sick < 3 || sick > row.most || others > 600+row.again {
					t.Errorf("%d requests for the sick entry in a minute, and %d for 600 others", sick, others)
				}
				if pending := r.pending(); pending != 1 {
					t.Errorf("%d are pending, want the sick one", pending)
				}
			})
		})
	}
}

// While upstream is down, the entry for which a caller waits may be the probe, ahead of older
// ones that have not failed.
func TestAProbeBeforeItsTurnIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.down = true
		r.putMany("other", 2)
		time.Sleep(10 * time.Minute)
		probes := func() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.dials) }
		for before := probes(); probes() == before; { // the next one is more than a second away
			time.Sleep(time.Millisecond)
		}
		r.put(key("3"), "v")
		w := r.put(key("4"), "v")
		go r.flusher.Await(t.Context(), w.ID, w.Seq)
		time.Sleep(2 * linger)
		r.set(func(f *fake) { f.down = false })
		r.settleWithin(time.Minute)
		wantInOrder(t, r, []string{"3", "4"})
		if first := r.requests(call.write)[0]; first.id != w.ID {
			t.Errorf("the probe is for %s", first.id)
		}
	})
}

// A delete of what upstream does not hold settles even if it goes before an older write, as the first
// request of a namespace that was throttled does: upstream lists nothing of it.
func TestADeleteBeforeItsTurnSettles(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.set(func(f *fake) {
			f.answer = func(call) reply {
				return reply{status: http.StatusTooManyRequests, header: http.Header{"Retry-After": {"2"}}}
			}
		})
		r.put(key("a"), "v")
		r.put(key("b"), "v")
		time.Sleep(10 * time.Second)
		r.set(func(f *fake) { f.answer = func(call) reply { return reply{status: http.StatusServiceUnavailable} } })
		time.Sleep(10 * time.Second)
		r.del(key("a"))
		r.set(func(f *fake) { f.answer = nil })
		r.settleWithin(time.Minute)
		if writes := r.requests(call.write); len(writes) != 1 || writes[0].id != key("b") {
			t.Errorf("upstream got %v", writes)
		}
	})
}
