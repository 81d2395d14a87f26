package flush_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/flush"
)

// step is a request to one entry, with its time since the first one.
type step struct {
	Method string
	Value  string
	At     time.Duration
}

func stepsOf(calls []call) []step { return stepsSince(calls, calls[0].at) }

func stepsSince(calls []call, began time.Time) []step {
	var out []step
	for _, c := range calls {
		out = append(out, step{c.method, c.value, c.at.Sub(began)})
	}
	return out
}

// once answers the first write request in one way, and all others as BotWire does.
func once(first reply) func(call) reply {
	return func(c call) reply {
		if c.write() && c.n == 0 {
			return first
		}
		return reply{}
	}
}

// landsAtTheEnd leaves writes unanswered, and carries them out just before their windows end.
func landsAtTheEnd(c call) reply {
	if !c.write() {
		return reply{}
	}
	return reply{hang: true, late: lateWindow - time.Second}
}

// contract 14: after a request that was not answered, nothing more of its entry is sent before the late window has
// passed. Then the newest state goes, once, and upstream ends with it whenever the first request landed.
func TestTheLateWindowIsWaitedOut(t *testing.T) {
	lates := map[string]time.Duration{
		"never": 0, "at once": time.Millisecond, "before it is given up": timeout - time.Millisecond, "as it is given up": timeout,
		"after the next write": timeout + 2*time.Second, "late": timeout + lateWindow/2, "at the end": timeout + lateWindow - time.Millisecond,
	}
	for name, late := range lates {
		for what, cut := range map[string]bool{"hangs": false, "is cut": true} {
			t.Run(name+", "+what, func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					gaveUp := timeout
					if cut {
						gaveUp = 0
					}
					r.answer = once(reply{hang: !cut, cut: cut, late: late - (timeout - gaveUp)})
					r.put(key("k"), "old")
					time.Sleep(linger + gaveUp + time.Second)
					r.put(key("k"), "middle")
					r.wantOpen(key("k"), gaveUp+lateWindow)
					r.flusher.TryNow("ns") // no person ends the window
					time.Sleep(time.Second)
					r.put(key("k"), "new")
					r.settleWithin(time.Minute)
					want := []step{{http.MethodPut, "old", 0}, {http.MethodPut, "new", gaveUp + lateWindow}}
					if diff := cmp.Diff(want, stepsOf(r.requests(anything))); diff != "" {
						t.Errorf("requests (-want +got):\n%s", diff)
					}
					time.Sleep(time.Minute)
					r.wantHeld(key("k"), "new")
				})
			})
		}
	}
}

// wantOpen checks that an entry waits for the end of its window, which is so long after the first request.
func (r *rig) wantOpen(id journal.ID, after time.Duration) {
	r.t.Helper()
	why, until := r.flusher.EntryWaits(id)
	want := r.requests(anything)[0].at.Add(after)
	if !strings.HasPrefix(why, "unanswered: ") || !until.Equal(want.Round(0)) {
		r.t.Errorf("it waits until %v because %q, want %v", until, why, want)
	}
}

// contract 14: what certainly was not carried out late opens no window.
func TestAnswersOpenNoWindow(t *testing.T) {
	for name, change := range map[string]func(*fake){
		"refused":     func(f *fake) { f.down = true },
		"a whole 500": func(f *fake) { f.answer = once(reply{status: http.StatusInternalServerError, body: "{}"}) },
		"a whole 503": func(f *fake) { f.answer = once(reply{status: http.StatusServiceUnavailable, body: "{}"}) },
		"a 429":       func(f *fake) { f.answer = once(reply{status: http.StatusTooManyRequests, body: `{"detail":"slow"}`}) },
		"not BotWire": func(f *fake) { f.answer = once(reply{status: http.StatusOK, body: "<html>"}) },
		"carried out": func(f *fake) {
			f.answer = once(reply{status: http.StatusInternalServerError, body: "{}", applied: true})
		},
		"a redirect": func(f *fake) { f.answer = once(reply{status: http.StatusFound, body: "{}"}) },
		"too early":  func(f *fake) { f.answer = once(reply{status: http.StatusTooEarly, body: "{}"}) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.set(change)
				r.put(key("k"), "v")
				time.Sleep(time.Second / 2)
				r.set(func(f *fake) { f.down = false })
				r.settleWithin(5 * time.Second)
				r.wantHeld(key("k"), "v")
			})
		})
	}
}

// A service that dies, and comes back after a while, holds the newest state of all entries within five seconds but of
// those whose requests it did not answer; of these within five seconds of their windows' ends.
func TestUpstreamHoldsTheNewestSoonAfterItsReturn(t *testing.T) {
	const many = 5000
	for _, row := range []struct {
		outage  time.Duration
		entries int
	}{{time.Second, 500}, {12 * time.Second, 500}, {10 * time.Minute, 500}, {10 * time.Minute, many}} {
		outage, entries := row.outage, row.entries
		for name, gone := range map[string]func(*fake){
			"refusing": func(f *fake) { f.down = true },
			"failing":  func(f *fake) { f.answer = func(call) reply { return reply{status: 500, body: "<html>"} } },
			"cutting":  func(f *fake) { f.answer = func(call) reply { return reply{cut: true} } },
			"hanging":  func(f *fake) { f.answer = func(call) reply { return reply{hang: true} } },
		} {
			t.Run(fmt.Sprint(name, outage, entries), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					if entries == many {
						r.set(func(f *fake) { f.latency = 5 * time.Millisecond }) // its requests, 14 at a time, take 2 s
					}
					r.set(gone)
					for i := range entries {
						r.put(key(fmt.Sprint(i)), "old")
					}
					time.Sleep(outage / 2)
					r.set(func(f *fake) { f.peak = 0 })
					time.Sleep(outage - outage/2)
					r.set(func(f *fake) {
						if outage > time.Minute && f.peak > 1 {
							t.Errorf("%d requests at a time, long after upstream was known to be down", f.peak)
						}
					})
					for i := range entries {
						r.put(key(fmt.Sprint(i)), "new")
					}
					asked := len(r.requests(anything))
					r.set(func(f *fake) { f.down, f.answer = false, nil })
					back := time.Now()
					time.Sleep(timeout + probeMax + 5*time.Second) // a probe may hang, and the next one wait
					probed := make(map[journal.ID]bool)
					for _, c := range r.requests(anything)[:asked] {
						if unanswered := name == "cutting" || name == "hanging"; unanswered && c.at.Add(timeout+lateWindow).After(back) {
							probed[c.id] = true
						}
					}
					old := 0
					for i := range entries {
						id := key(fmt.Sprint(i))
						if value, _ := r.holds(id); value != "new" && !probed[id] {
							old++
						}
					}
					if old > 0 {
						t.Errorf("upstream lacks the newest state of %d entries, and %d were probed within the window", old, len(probed))
					}
					if outage > time.Minute && len(probed) > entries/4 {
						t.Errorf("%d of %d entries were probed within the window", len(probed), entries)
					}
					r.settleWithin(lateWindow + 5*time.Second)
				})
			})
		}
	}
}

// contract 14: while upstream fails over the only entry that is written, that is tried every few seconds: it gets the newest
// state within five seconds of upstream's return.
func TestTheOnlyEntryIsTriedEveryFewSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(call) reply { return detail(http.StatusInternalServerError) }
		r.put(key("k"), "v")
		time.Sleep(10 * time.Minute)
		calls := r.requests(anything)
		for i := range calls[1:] {
			if gap := calls[i+1].at.Sub(calls[i].at); gap > probeMax+r.latency {
				t.Fatalf("%s between two requests", gap)
			}
		}
	})
}

// clocked is a rig on a disk that survives a kill, with the clock of a machine.
func clocked(t *testing.T, f *fake, fs *vfs.MemFS, clock func() (string, time.Duration)) *rig {
	t.Helper()
	return newRigWithin(t, f, fs, nil, func(o *journal.Options) { o.BootClock = clock })
}

// crashed returns what a kill leaves of a disk now.
func crashed(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{})
}

// contract 14: after a kill amid requests, everything is answered at once, and nothing is sent before what was sent
// can land no more, by the clock that counts since the boot; but a start waits for one window at most.
func TestKilledAmidRequests(t *testing.T) {
	for name, row := range map[string]struct {
		away time.Duration // until the next start
		boot string        // of the next start; the first is "1"
		want time.Duration // from there on
	}{
		"at once":              {0, "1", lateWindow},
		"a while later":        {30 * time.Second, "1", timeout + lateWindow + time.Second - 30*time.Second},
		"ten minutes later":    {10 * time.Minute, "1", 0},
		"after a boot":         {10 * time.Minute, "2", lateWindow},
		"without such a clock": {10 * time.Minute, "", lateWindow},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				booted, boot := time.Now(), "1"
				clock := func() (string, time.Duration) { return boot, time.Since(booted) }
				fs := vfs.NewCrashableMem()
				r := clocked(t, newFake(t), fs, clock)
				r.answer = func(call) reply { return reply{hang: true} }
				r.putMany("ns", concurrency)
				time.Sleep(linger + time.Second/2)
				asked := len(r.requests(anything))
				killed := crashed(fs)
				time.Sleep(row.away)
				r.stop()
				r.set(func(f *fake) { f.answer = nil })
				boot = row.boot
				before := len(r.requests(anything))
				r = clocked(t, r.fake, killed, clock)
				began := time.Now()
				r.put(key("0"), "newer")
				if state, err := r.journal.Lookup(key("0")); err != nil || state.Value != "newer" {
					t.Errorf("read: %+v, %v", state, err)
				}
				why, until := "", time.Time{}
				r.within(time.Second, "it knows whether it waits", func() bool {
					why, until = r.flusher.Waits("ns")
					return row.want == 0 || why != ""
				})
				if row.want > 0 && (!strings.HasPrefix(why, "unanswered: ") || (until.Sub(began)-row.want).Abs() > time.Second) {
					t.Errorf("it waits until %v because %q", until.Sub(began), why)
				}
				r.settleWithin(row.want + 5*time.Second)
				calls := r.requests(anything)[before:]
				if first := calls[0].at.Sub(began); first < row.want-2*time.Second || len(calls) != concurrency || asked < concurrency/2 {
					t.Errorf("%d requests before the kill, and %d after it, the first %s after the start, want %s", asked, len(calls), first, row.want)
				}
				r.wantHeld(key("0"), "newer")
			})
		})
	}
}

// contract 14: after a kill, a start waits for nothing if every request before it was answered; but it does if the write
// of one that was not has been dropped.
func TestKilledWithEverythingAnswered(t *testing.T) {
	for name, drops := range map[string]bool{"settled": false, "one was dropped": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := func() (string, time.Duration) { return "1", time.Since(time.Unix(0, 0)) }
				fs := vfs.NewCrashableMem()
				r := clocked(t, newFake(t), fs, clock)
				r.putMany("ns", 3)
				r.settleWithin(time.Second)
				if drops {
					r.set(func(f *fake) { f.answer = landsAtTheEnd })
					w := r.put(key("dropped"), "late")
					time.Sleep(linger + timeout + time.Second)
					if _, err := r.flusher.Drop(t.Context(), w.ID, w.Seq); err != nil {
						t.Fatal(err)
					}
				}
				fs = crashed(fs)
				r.stop()
				r.set(func(f *fake) { f.answer = nil })
				r = clocked(t, r.fake, fs, clock)
				synctest.Wait() // it knows whether it waits
				w := r.put(key("dropped"), "next")
				settled, err := r.flusher.Confirm(t.Context(), w.ID, w.Seq, false)
				if unconfirmed := new(flush.Unconfirmed); settled == drops || errors.As(err, &unconfirmed) != drops {
					t.Errorf("settled %v, %v", settled, err)
				}
				time.Sleep(timeout + lateWindow)
				r.wantHeld(key("dropped"), "next")
			})
		})
	}
}

// contract 14: a daemon that ends does not wait for late windows. It sends such a write once more and leaves it pending,
// and the next daemon sends it when nothing can land over it any more.
func TestTheEndWithinAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		booted := time.Now()
		clock := func() (string, time.Duration) { return "1", time.Since(booted) }
		fs := vfs.NewCrashableMem()
		r := clocked(t, newFake(t), fs, clock)
		r.put(key("settled"), "v")
		r.settleWithin(time.Second)
		r.answer = func(c call) reply {
			if c.value == "old" {
				return reply{hang: true, late: timeout + lateWindow/2}
			}
			return reply{}
		}
		r.put(key("k"), "old")
		time.Sleep(linger + timeout + time.Second)
		r.put(key("k"), "new")
		r.put(key("other"), "v")
		for range 2 { // the second time, nothing is left to do
			began := time.Now()
			want := flush.Result{Pending: 1, Unanswered: 1}
			if len(r.requests(func(c call) bool { return c.id == key("other") })) == 0 {
				want.Settled = 1
			}
			if diff := cmp.Diff(want, drain(t, r, 5*time.Second)); diff != "" {
				t.Errorf("drained (-want +got):\n%s", diff)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %s", took)
			}
		}
		r.wantHeld(key("k"), "new")
		r.stop()
		r = clocked(t, r.fake, fs, clock)
		if n := r.pending(); n != 1 {
			t.Errorf("%d are pending", n)
		}
		r.settleWithin(lateWindow + timeout + time.Second)
		r.wantHeld(key("k"), "new")
		steps := stepsOf(r.requests(func(c call) bool { return c.id == key("k") }))
		if len(steps) != 3 || steps[1].Value != "new" || steps[2].Value != "new" || steps[2].At < timeout+lateWindow {
			t.Errorf("requests: %+v", steps)
		}
	})
}

// contract 14: the end of a daemon that still waits for what an earlier one has sent sends each entry once, whatever
// upstream answers, and does not wait.
func TestTheEndWithinTheWindowOfAStart(t *testing.T) {
	for name, answer := range map[string]reply{"well": {}, "a failure": {status: 500}, "a refusal": detail(422)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				booted := time.Now()
				clock := func() (string, time.Duration) { return "1", time.Since(booted) }
				fs := vfs.NewCrashableMem()
				r := clocked(t, newFake(t), fs, clock)
				r.answer = func(call) reply { return reply{hang: true} }
				r.putMany("ns", 3)
				time.Sleep(linger + time.Second)
				fs = crashed(fs)
				r.stop()
				r.set(func(f *fake) { f.answer = func(call) reply { return answer } })
				asked := len(r.requests(anything))
				r = clocked(t, r.fake, fs, clock)
				r.within(time.Second, "it waits", func() bool { why, _ := r.flusher.Waits("ns"); return why != "" })
				began := time.Now()
				if diff := cmp.Diff(flush.Result{Pending: 3, Unanswered: 3}, drain(t, r, 20*time.Second)); diff != "" || time.Since(began) > 5*time.Second {
					t.Errorf("drained in %s (-want +got):\n%s", time.Since(began), diff)
				}
				for _, id := range []journal.ID{key("0"), key("1")} {
					_, err := r.flusher.Confirm(t.Context(), id, 100, false)
					unconfirmed := new(flush.Unconfirmed)
					if !errors.As(err, &unconfirmed) || unconfirmed.RetryAfter() != 0 || !strings.Contains(err.Error(), "next start") {
						t.Errorf("a caller hears %v", err)
					}
				}
				r.flusher.TryNow("")
				time.Sleep(time.Second)
				if n := len(r.requests(anything)) - asked; n != 3 {
					t.Errorf("%d requests", n)
				}
				r.stop()
				r.set(func(f *fake) { f.answer = nil })
				r = clocked(t, r.fake, fs, clock)
				restarted := time.Now()
				r.settleWithin(lateWindow + timeout)
				if took := time.Since(restarted); took < lateWindow-2*time.Second {
					t.Errorf("the next start has waited for %s", took)
				}
			})
		})
	}
}

// contract 14, 22: an end on a full disk within a window is one that the next start has to know of, too.
func TestTheEndWithinAWindowOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{FS: vfs.NewMem()}
		d.free.Store(1 << 30)
		r := newRig(t, newFake(t), d)
		r.answer = once(reply{hang: true, late: timeout + lateWindow/2})
		r.put(key("k"), "old")
		time.Sleep(linger + timeout + time.Second)
		r.put(key("k"), "new")
		d.free.Store(1 << 20)
		time.Sleep(time.Second)
		if diff := cmp.Diff(flush.Result{Pending: 1, Unanswered: 1}, drain(t, r, 5*time.Second)); diff != "" {
			t.Errorf("drained (-want +got):\n%s", diff)
		}
		d.free.Store(1 << 30)
		r = r.reopen()
		r.settleWithin(lateWindow + timeout)
		time.Sleep(time.Minute)
		r.wantHeld(key("k"), "new")
	})
}

// asking counts how often the flusher asks for an entry's write.
type asking struct {
	flush.Journal
	times atomic.Int32
}

func (j *asking) Newest(id journal.ID) (journal.Write, bool, error) {
	j.times.Add(1)
	return j.Journal.Newest(id)
}

// contract 18: at the end of a window nothing is sent, so a write that comes just then is not sent uncounted.
func TestTheEndOfAWindowSendsNothingUncounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &asking{}
		r := openRig(&rig{fake: newFake(t), t: t, fs: vfs.NewMem(), adjust: func(o *flush.Options) { j.Journal, o.Journal = o.Journal, j }})
		r.answer = once(reply{hang: true})
		w := r.put(key("k"), "late")
		time.Sleep(linger + timeout + backoffInitial/4)
		if _, err := r.flusher.Drop(t.Context(), key("k"), w.Seq); err != nil {
			t.Fatal(err)
		}
		asked := j.times.Load()
		time.Sleep(lateWindow + time.Second)
		if n := j.times.Load(); n != asked {
			t.Errorf("it asked %d times for a write to send", n-asked)
		}
	})
}

// contract 14: a process that has ended well leaves nothing to wait for.
func TestTheNextStartWaitsForNothing(t *testing.T) {
	for name, ends := range map[string]func(r *rig){
		"all was answered":      func(r *rig) { r.settleWithin(time.Second) },
		"nothing was ever sent": func(r *rig) { r.set(func(f *fake) { f.down = true }); time.Sleep(time.Second) },
		"a whole answer came": func(r *rig) {
			r.set(func(f *fake) { f.answer = func(call) reply { return reply{status: 500} } })
			r.within(time.Second, "it waits for the next attempt", func() bool {
				count, _, next := r.flusher.Attempts(key("k"))
				return count > 0 && !next.IsZero()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.put(key("k"), "v")
				ends(r)
				r = r.reopen()
				r.set(func(f *fake) { f.down, f.answer = false, nil })
				r.put(key("k"), "next")
				r.settleWithin(2 * time.Second)
			})
		})
	}
}

// contract 14: the window goes on when its write is dropped by hand, or lasts over a refusal.
func TestTheWindowOutlastsItsWrite(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = once(reply{hang: true, late: timeout + lateWindow/2})
		w := r.put(key("k"), "late")
		time.Sleep(linger + timeout + backoffInitial/4)
		if _, err := r.flusher.Drop(t.Context(), key("k"), w.Seq); err != nil {
			t.Fatal(err)
		}
		if st := r.journal.Stats(); st.Pending != 0 || st.DeadLetters != 1 {
			t.Fatalf("%d are pending, %d dead", st.Pending, st.DeadLetters)
		}
		r.put(key("k"), "new")
		r.wantOpen(key("k"), timeout+lateWindow)
		time.Sleep(lateWindow - time.Second)
		r.wantHeld(key("k"), "late")
		r.settleWithin(5 * time.Second)
		r.wantHeld(key("k"), "new")
		if n := len(r.requests(anything)); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// A window that nothing waits for ends by itself, and upstream is not asked.
func TestTheWindowOfADroppedWriteEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = once(reply{hang: true})
		w := r.put(key("k"), "late")
		time.Sleep(linger + timeout + backoffInitial/4)
		if _, err := r.flusher.Drop(t.Context(), key("k"), w.Seq); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lateWindow + time.Second)
		if n := len(r.requests(anything)); n != 1 {
			t.Errorf("%d requests", n)
		}
		r.put(key("k"), "new")
		r.settleWithin(time.Second)
	})
}

// contract 14: a caller that waits for upstream hears at once that a window is open, and until when.
func TestNobodyWaitsForAWindow(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = once(reply{cut: true})
		r.put(key("k"), "old")
		time.Sleep(linger + time.Second)
		began := time.Now()
		w := r.put(key("k"), "new")
		_, err := r.flusher.Confirm(t.Context(), w.ID, w.Seq, false)
		unconfirmed := new(flush.Unconfirmed)
		if !errors.As(err, &unconfirmed) || unconfirmed.RetryAfter() != lateWindow-time.Second || time.Since(began) > time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// contract 14, 17: after a kill, a request that has landed late is this host's own, also if its write was replaced: the
// newer one goes over it, and nobody keeps it as another host's.
func TestALateArrivalIsOursAfterAKill(t *testing.T) {
	for name, replaced := range map[string]bool{"the pending write": false, "one that was replaced": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewCrashableMem()
				r := newFencedRig(t, newShared(t), fs, "a.test")
				r.settledPut(key("k"), "base")
				time.Sleep(time.Second)
				r.set(func(f *fake) {
					f.answer = landsAtTheEnd
				})
				r.put(key("k"), "old")
				time.Sleep(time.Second)
				if replaced {
					r.put(key("k"), "newer")
				}
				fs = crashed(fs)
				r.stop()
				r.set(func(f *fake) { f.answer = nil })
				r = newFencedRig(t, r.fake, fs, "a.test")
				restarted := time.Now()
				r.settleWithin(lateWindow + timeout)
				want := "old"
				if replaced {
					want = "newer"
				}
				r.wantHeld(key("k"), want)
				r.wantLetters()
				for _, c := range r.requests(func(c call) bool { return !c.at.Before(restarted) }) {
					if c.at.Sub(restarted) < lateWindow {
						t.Errorf("%s %v after the restart", c.method, c.at.Sub(restarted))
					}
				}
			})
		})
	}
}

func drain(t *testing.T, r *rig, limit time.Duration) flush.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return r.flusher.Drain(ctx)
}
