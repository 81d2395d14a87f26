package flush_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

// newShared returns a fake upstream that keeps the times of its entries, for several hosts.
func newShared(t testing.TB) *fake {
	f := newFake(t)
	f.updated = make(map[journal.ID]time.Time)
	f.ahead = make(map[string]time.Duration)
	f.away = make(map[string]bool)
	return f
}

// fenced runs a test with one fenced host, whose clock is 5 s behind upstream's.
func fenced(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newShared(t)
		f.ahead["a.test"] = 5 * time.Second
		test(t, newFencedRig(t, f, vfs.NewMem(), "a.test"))
	})
}

// cutOff makes the host's requests fail from now on, or ends that.
func (r *rig) cutOff(away bool) { r.set(func(f *fake) { f.away[r.fenced] = away }) }

// wantKnown checks what readers on the host get.
func (r *rig) wantKnown(id journal.ID, want string, kind journal.Kind) {
	r.t.Helper()
	state, err := r.journal.Lookup(id)
	if err != nil || state.Value != want || state.Kind != kind {
		r.t.Errorf("%s knows %q (%v, %v) of %s, want %q (%v)", r.fenced, state.Value, state.Kind, err, id, want, kind)
	}
}

// letter has the fields that tests compare of a dead letter, or of a version that has lost a conflict.
type letter struct {
	Kind   string
	Theirs bool
	Op     journal.Op
	Value  string
}

// letters returns the dead letters, and then what is lost in the order of the conflicts.
func (r *rig) letters() (out []letter) {
	r.t.Helper()
	all, err := r.journal.DeadLetters(0, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, listed := range all {
		l, err := r.journal.ReadDeadLetter(listed.Seq) // with its value
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, letter{l.Kind.String(), false, l.Op, l.Value})
	}
	lost, err := r.journal.History.Lost("", 0, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	histories := make(map[journal.ID][]journal.Past)
	for _, l := range slices.Backward(lost) {
		versions, known := histories[l.ID]
		if !known {
			if versions, err = r.journal.History.Of(l.ID, 1000); err != nil {
				r.t.Fatal(err)
			}
			histories[l.ID] = versions
		}
		at := slices.IndexFunc(versions, func(v journal.Past) bool { return v.Seq == l.Seq })
		if at < 0 {
			r.t.Fatalf("%+v is not in the history of its entry", l)
		}
		out = append(out, letter{string(l.State), l.Shown, l.Op, versions[at].Value})
	}
	return out
}

func (r *rig) wantLetters(want ...letter) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.letters()); diff != "" {
		r.t.Errorf("dead letters (-want +got):\n%s", diff)
	}
}

// wantFences compares the outcomes of fences since the last call.
func (r *rig) wantFences(want map[string]int) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.fences); diff != "" {
		r.t.Errorf("fences (-want +got):\n%s", diff)
	}
	clear(r.fences)
}

// settledPut puts a value and waits until it settles.
// read reads an entry upstream for callers, and returns what they get.
func (r *rig) read(id journal.ID) journal.State {
	r.t.Helper()
	found, err := r.client.Get(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	state, err := r.journal.Fill(id, found.Observation(), func() bool { return true })
	if err != nil {
		r.t.Fatal(err)
	}
	return state
}

func (r *rig) settledPut(id journal.ID, value string) {
	r.t.Helper()
	r.put(id, value)
	r.settleWithin(time.Minute)
}

// contract 17: the later write by time wins, and the loser is kept with both values. Readers see the
// winner at once.
func TestTheLaterWriteWins(t *testing.T) {
	const apart = 2 * time.Second // the clocks are corrected to about a second
	put, del := journal.Put, journal.Delete
	for name, row := range map[string]struct {
		known   bool // the host has written the entry before
		op      journal.Op
		foreign time.Duration // when the other host writes, relative to the local write
		wins    bool
		letter  letter
	}{
		"later put":                {true, put, apart, false, letter{"lost", false, put, "local"}},
		"earlier put":              {true, put, -apart, true, letter{"lost", true, put, "theirs"}},
		"later, unknown entry":     {false, put, apart, false, letter{"lost", false, put, "local"}},
		"earlier, unknown entry":   {false, put, -apart, true, letter{"lost", true, put, "theirs"}},
		"a put beats a delete":     {true, del, apart, false, letter{"lost", false, del, ""}},
		"a delete beats a put":     {true, del, -apart, true, letter{"lost", true, put, "theirs"}},
		"a delete, unknown entry":  {false, del, -apart, true, letter{"lost", true, put, "theirs"}},
		"much later":               {true, put, time.Hour, false, letter{"lost", false, put, "local"}},
		"much earlier, long away":  {true, put, -time.Hour, true, letter{"lost", true, put, "theirs"}},
		"a delete that comes late": {true, del, time.Hour, false, letter{"lost", false, del, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			fenced(t, func(t *testing.T, r *rig) {
				r.settledPut(key("calibrates"), "v")
				if row.known {
					r.settledPut(key("k"), "base")
				}
				r.cutOff(true)
				time.Sleep(time.Minute)
				foreign := func() { r.foreign(key("k"), "theirs") }
				local := func() {
					r.append(journal.NewWrite{ID: key("k"), Op: row.op, Value: map[bool]string{true: "local"}[row.op == put]})
				}
				first, second := local, foreign
				if row.foreign < 0 {
					first, second = foreign, local
				}
				first()
				time.Sleep(row.foreign.Abs())
				second()
				time.Sleep(time.Minute)
				r.cutOff(false)
				r.settleWithin(time.Minute)
				r.wantLetters(row.letter)
				switch {
				case !row.wins:
					r.wantHeld(key("k"), "theirs")
					r.wantKnown(key("k"), "theirs", journal.Settled)
				case row.op == put:
					r.wantHeld(key("k"), "local")
					r.wantKnown(key("k"), "local", journal.Settled)
				default:
					if value, ok := r.holds(key("k")); ok {
						t.Errorf("upstream holds %q", value)
					}
				}
			})
		})
	}
}

// A fence costs one read if the entry was not just confirmed.
func TestWhatAFenceCosts(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		reads := func() int { return len(r.requests(func(c call) bool { return c.method == http.MethodGet })) }
		r.settledPut(key("k"), "first")
		if n := reads(); n != 1 {
			t.Errorf("%d reads for the first write, want 1", n)
		}
		time.Sleep(time.Second)
		r.settledPut(key("k"), "second")
		if n := reads(); n != 2 {
			t.Errorf("%d reads after the second write, want 2", n)
		}
		for range 5 { // no linger, and upstream has just confirmed the entry
			w := r.put(key("k"), "hot")
			if !r.flusher.Await(t.Context(), key("k"), w.Seq) {
				t.Fatal("it is not settled")
			}
		}
		if n := reads(); n != 2 {
			t.Errorf("%d reads after writes that follow at once, want 2", n)
		}
		r.append(journal.NewWrite{ID: key("k"), Op: journal.Put, Value: "asks", Fenced: true})
		r.settleWithin(time.Minute)
		if n := reads(); n != 3 {
			t.Errorf("%d reads after a write that asks for one, want 3", n)
		}
		r.wantFences(map[string]int{"absent": 1, "unchanged": 2})
	})
}

// After a crash with a PUT in flight, another host writes after our write was confirmed. Only contents
// that were really sent count as our own late write.
func TestAnotherHostsWriteIsNoLateOneOfOurs(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.settledPut(key("k"), "base")
		r.set(func(f *fake) {
			f.answer = func(c call) reply { return reply{hang: c.value == "under way", applied: c.value == "under way"} }
		})
		time.Sleep(time.Second)
		r.put(key("k"), "under way")
		time.Sleep(time.Second)
		r = r.reopen()
		r.set(func(f *fake) { f.answer = nil })
		time.Sleep(5 * time.Second)
		r.foreign(key("k"), "theirs")
		time.Sleep(2 * lateWindow)
		r.wantHeld(key("k"), "theirs")
		r.wantKnown(key("k"), "theirs", journal.Settled)
		if n := r.pending(); n != 0 {
			t.Errorf("%d are pending", n)
		}
		r.wantLetters(letter{"lost", false, journal.Put, "under way"})
	})
}

// If another host writes the old value again, that is a write like any other.
func TestTheOldValueAgain(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.settledPut(key("k"), "a")
		r.cutOff(true)
		r.put(key("k"), "mine")
		time.Sleep(10 * time.Second)
		r.foreign(key("k"), "b")
		time.Sleep(10 * time.Second)
		r.foreign(key("k"), "a")
		time.Sleep(time.Second)
		r.cutOff(false)
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "a")
		r.wantLetters(letter{"lost", false, journal.Put, "mine"})
	})
}

// A failed fence is a failed attempt: nothing is sent, nothing may have landed, no quota is spent, and it
// is retried.
func TestAFenceThatFails(t *testing.T) {
	for name, bad := range map[string]reply{
		"429":      {status: 429, header: http.Header{"Retry-After": {"40"}}, body: `{"detail":"slow"}`},
		"502":      {status: 502, body: "<html>"},
		"403":      {status: 403, body: `{"detail":"no"}`},
		"hangs":    {hang: true},
		"cut":      {cut: true},
		"captured": {status: 200, body: "<html>"},
	} {
		t.Run(name, func(t *testing.T) {
			fenced(t, func(t *testing.T, r *rig) {
				r.settledPut(key("k"), "base")
				time.Sleep(time.Second)
				r.set(func(f *fake) {
					f.answer = func(c call) reply {
						if c.method == http.MethodGet {
							return bad
						}
						return reply{}
					}
				})
				writes := len(r.requests(call.write))
				w := r.put(key("k"), "mine")
				time.Sleep(30 * time.Second)
				if n := len(r.requests(call.write)); n != writes {
					t.Errorf("%d writes were sent", n-writes)
				}
				count, why, _ := r.flusher.Attempts(key("k"))
				if count == 0 || strings.HasPrefix(why, "comparing with upstream: ") != (name == "403") {
					t.Errorf("%d attempts, the last of which failed: %q", count, why)
				}
				if left, known, err := r.journal.Left(w); len(left) > 0 || !known || err != nil {
					t.Errorf("it may have left %v: %v, %v", left, known, err)
				}
				r.set(func(f *fake) { f.answer = nil })
				r.settleWithin(2 * time.Minute)
				r.wantHeld(key("k"), "mine")
			})
		})
	}
}

// If upstream permanently refuses to read an entry, the write is sent all the same and refused itself.
func TestAFenceThatIsRefusedForGood(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.set(func(f *fake) { f.answer = func(call) reply { return detail(http.StatusUnprocessableEntity) } })
		r.put(key("k"), "v")
		r.settleWithin(time.Minute)
		r.wantLetters(letter{"refused", false, journal.Put, "v"})
	})
}

// The process, or the machine, stops between the fence and the write: the fence's answer is then too
// old, and upstream is asked again.
func TestAFenceAfterAPause(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.settledPut(key("k"), "base")
		time.Sleep(time.Second)
		paused := false
		r.set(func(f *fake) {
			f.answer = func(c call) reply {
				if c.method == http.MethodGet && !paused {
					paused = true
					return reply{after: 20 * time.Second / 4} // the answer has arrived, but is not read
				}
				return reply{}
			}
		})
		r.put(key("k"), "mine")
		time.Sleep(time.Second)
		r.foreign(key("k"), "theirs")
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "theirs")
		r.wantLetters(letter{"lost", false, journal.Put, "mine"})
	})
}

// An upstream that is always slow still gets its writes.
func TestAFenceOfASlowUpstream(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.set(func(f *fake) { f.latency = 4 * time.Second })
		r.put(key("k"), "v")
		r.settleWithin(5 * time.Minute)
		r.wantHeld(key("k"), "v")
	})
}

// How long another host may write unseen: from the moment when upstream makes the fence's answer until
// it carries out the write. With half a round trip each way, that is one round trip.
func TestTheRaceThatIsLeft(t *testing.T) {
	unseen := 0
	const step = 5 * time.Millisecond
	for at := time.Duration(0); at < 200*time.Millisecond; at += step {
		fenced(t, func(t *testing.T, r *rig) {
			r.settledPut(key("k"), "base")
			time.Sleep(time.Second)
			r.put(key("k"), "mine")
			time.Sleep(linger + at + time.Millisecond)
			r.foreign(key("k"), "theirs")
			time.Sleep(time.Second)
			r.settleWithin(time.Minute)
			if value, _ := r.holds(key("k")); value == "mine" && len(r.letters()) == 0 {
				unseen++
			}
		})
	}
	if width := time.Duration(unseen) * step; width != 50*time.Millisecond {
		t.Errorf("another host may write unseen for %v, and a round trip takes 50ms", width)
	}
}

// contract 17: after a restart, a write does not lose to this host's own write before it: neither if that
// was confirmed and upstream's clock was set back since, nor if it was refused, and landed all the same.
func TestAWriteMeetsItsPredecessorAfterARestart(t *testing.T) {
	for _, late := range []time.Duration{0, 5 * time.Second} {
		fenced(t, func(t *testing.T, r *rig) {
			r.settledPut(key("k"), "v1")
			refused := 0
			r.set(func(f *fake) {
				f.answer = func(c call) reply {
					if c.value != "v2" {
						return reply{}
					}
					if refused++; refused == 1 {
						return reply{status: 500, late: late}
					}
					return detail(422)
				}
			})
			r.put(key("k"), "v2")
			r.settleWithin(time.Minute)
			time.Sleep(late)
			again := r.reopen()
			again.set(func(f *fake) {
				f.ahead[again.fenced] -= time.Hour
				f.updated[key("k")] = f.updated[key("k")].Add(time.Hour)
			})
			again.settledPut(key("k"), "v3")
			again.wantHeld(key("k"), "v3")
			again.wantLetters(letter{Kind: "refused", Op: journal.Put, Value: "v2"})
		})
	}
}

// contract 17: a state from before the daemon's start is no loser of a conflict with a write since then. But it is
// one if that write takes the place of one that was pending at the start: its maker knew that, and not the state.
func TestAWriteMeetsWhatItsPredecessorWouldHave(t *testing.T) {
	for name, row := range map[string]struct {
		pending bool
		letters []letter
	}{
		"nothing was pending": {false, nil},
		"a write was pending": {true, []letter{{"lost", true, journal.Put, "theirs"}}},
	} {
		t.Run(name, func(t *testing.T) {
			fenced(t, func(t *testing.T, r *rig) {
				r.cutOff(true)
				r.foreign(key("k"), "theirs")
				time.Sleep(time.Minute)
				if row.pending {
					r.put(key("k"), "older")
				}
				time.Sleep(time.Minute)
				again := r.reopen()
				time.Sleep(time.Minute)
				again.put(key("k"), "newer")
				time.Sleep(time.Minute)
				again.cutOff(false)
				again.settleWithin(time.Minute)
				again.wantHeld(key("k"), "newer")
				again.wantLetters(row.letters...)
			})
		})
	}
}

// contract 17: a write does not lose to this host's own write before it if upstream's clock was set back since.
func TestUpstreamsClockIsSetBack(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.settledPut(key("k"), "v1")
		r.set(func(f *fake) {
			f.ahead[r.fenced] -= time.Hour
			f.updated[key("k")] = f.updated[key("k")].Add(time.Hour)
		})
		time.Sleep(time.Minute)
		r.settledPut(key("other"), "v") // shows how far
		r.settledPut(key("k"), "v2")
		r.wantHeld(key("k"), "v2")
		r.wantLetters()
	})
}

// contract 17: another host's state that was seen since is not this host's, though it has the value of an
// earlier write.
func TestAValueThatAnotherHostHasReplaced(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.settledPut(key("k"), "v1")
		r.foreign(key("k"), "theirs")
		_, err := r.journal.Fill(key("k"), &journal.Observation{Value: "theirs", ListBytes: 6, CreatedAt: 1, UpdatedAt: upstream.Unix(time.Now().Add(5 * time.Second))}, func() bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		r.set(func(f *fake) {
			f.answer = func(c call) reply {
				if c.value == "v2" && c.n == 1 {
					return reply{status: 500}
				} else if c.value == "v2" {
					return detail(422)
				}
				return reply{}
			}
		})
		r.put(key("k"), "v2")
		r.settleWithin(time.Minute)
		again := r.reopen()
		again.foreign(key("k"), "v1")
		time.Sleep(time.Minute)
		again.settledPut(key("k"), "v3")
		again.wantLetters(letter{Kind: "refused", Op: journal.Put, Value: "v2"}, letter{"lost", true, journal.Put, "v1"})
	})
}

// contract 17: what somebody on the way has answered says nothing of what upstream has carried out: it is this host's own.
func TestAWriteThatWasCarriedOutBehindAnAnswerIsOwn(t *testing.T) {
	for _, status := range []int{401, 403, 404, 429, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			fenced(t, func(t *testing.T, r *rig) {
				r.settledPut(key("k"), "base")
				time.Sleep(time.Second)
				r.set(func(f *fake) {
					f.answer = func(c call) reply {
						if c.value == "first" {
							return reply{status: status, body: `{"detail":"no"}`, applied: true}
						}
						return reply{}
					}
				})
				r.put(key("k"), "first")
				time.Sleep(linger + 100*time.Millisecond)
				r.put(key("k"), "second")
				time.Sleep(2 * time.Second)
				r.flusher.TryNow("ns")
				r.settleWithin(2 * time.Minute)
				r.wantHeld(key("k"), "second")
				r.wantLetters()
			})
		})
	}
}

// contract 17: upstream failed over a write, kept it, and refuses a newer one for good. The write that came
// meanwhile finds this host's own state.
func TestAWriteThatUpstreamKeptBeforeARefusalIsOwn(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		var refusing atomic.Bool
		r.set(func(f *fake) {
			f.latency = time.Second
			f.answer = func(c call) reply {
				switch {
				case c.method == http.MethodPut && c.value == "kept":
					return reply{status: 500, applied: true}
				case c.method == http.MethodPut && c.value == "refused":
					refusing.Store(true)
					return detail(422)
				}
				return reply{}
			}
		})
		r.put(key("k"), "kept")
		time.Sleep(linger + 60*time.Millisecond)
		r.put(key("k"), "refused")
		r.within(2*lateWindow, "its request", refusing.Load)
		r.put(key("k"), "newest")
		r.settleWithin(2 * lateWindow)
		r.wantHeld(key("k"), "newest")
		r.wantLetters()
	})
}

// contract 17: a value that upstream has refused for good is not this host's own, also where a newer write came before the
// refusal: another host that writes that value later keeps its state.
func TestWhatUpstreamHasRefusedIsNotOwn(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.set(func(f *fake) {
			f.latency = 4 * time.Second
			f.answer = func(c call) reply {
				if c.value == "refused" {
					return detail(422)
				}
				return reply{}
			}
		})
		r.put(key("k"), "refused")
		r.within(lateWindow, "its request", func() bool { return len(r.requests(call.write)) > 0 })
		r.put(key("k"), "newer")
		time.Sleep(r.latency + linger/2)
		r.foreign(key("k"), "refused")
		r.settleWithin(lateWindow)
		r.wantHeld(key("k"), "refused")
		r.wantLetters(letter{"lost", false, journal.Put, "newer"})
	})
}

// contract 17: what upstream has shown as this host's own write stays that, also once the copy of it is gone.
func TestAWriteThatUpstreamHasShownIsOwn(t *testing.T) {
	for name, first := range map[string]reply{
		"it failed, and was carried out": {status: 500, applied: true},
		"it landed once more":            {cut: true, late: 5 * time.Second},
	} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, its copy is gone: %t", name, gone), func(t *testing.T) {
				fenced(t, func(t *testing.T, r *rig) {
					r.settledPut(key("k"), "v1")
					r.set(func(f *fake) {
						f.answer = func(c call) reply {
							if c.value == "v2" && c.n == 1 {
								return first
							}
							return reply{}
						}
					})
					time.Sleep(time.Minute)
					r.settledPut(key("k"), "v2")
					if gone {
						if _, err := r.journal.Disk.Forget(key("k")); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(time.Minute)
					r.settledPut(key("k"), "v3")
					r.wantHeld(key("k"), "v3")
					r.wantLetters()
				})
			})
		}
	}
}
