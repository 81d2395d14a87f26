package flush_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/quota"
)

// forgetful is a journal that does not know what was sent, as after a recovery.
type forgetful struct{ *journal.Journal }

func (j forgetful) Left(journal.Write) (left []journal.Content, known bool, err error) {
	return nil, false, nil
}

// If it is unknown what was sent, nothing is sent before that can no longer land. Upstream's state may
// then be another host's: it is kept, and never wins.
func TestRestartAfterALoss(t *testing.T) {
	for name, host := range map[string]string{"without a fence": "", "fenced": "a.test"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := openRig(&rig{fake: newShared(t), t: t, fs: vfs.NewMem(), fenced: host})
				r.settledPut(key("k"), "base")
				time.Sleep(time.Second)
				r.set(func(f *fake) {
					f.answer = landsAtTheEnd
				})
				r.put(key("k"), "old")
				time.Sleep(time.Second)
				r.put(key("k"), "new")
				r.stop()
				r.set(func(f *fake) { f.answer = nil })
				r = openRig(&rig{fake: r.fake, t: t, fs: r.fs, fenced: host, forgetful: true})
				restarted := time.Now()
				r.settleWithin(2 * time.Minute)
				r.wantHeld(key("k"), "new")
				for _, c := range r.requests(func(c call) bool { return !c.at.Before(restarted) }) {
					if c.at.Sub(restarted) < lateWindow {
						t.Errorf("%s %v after the restart, want nothing for %v", c.method, c.at.Sub(restarted), lateWindow)
					}
				}
				if host != "" {
					r.wantLetters(letter{"lost", true, journal.Put, "old"})
				}
			})
		})
	}
}

// No outcome of a fence spends quota.
func TestAFenceSpendsNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day := quota.Limit{Writes: 100, Period: 24 * time.Hour, MaxAge: time.Minute}
		r := openRig(&rig{
			fake: newShared(t), t: t, fs: vfs.NewMem(), fenced: "a.test", quota: func(string) quota.Limit { return day },
		})
		used := func(want int) {
			t.Helper()
			if got := r.quotas.Reports()["ns"].Used; got != want {
				t.Errorf("%d are used, want %d", got, want)
			}
		}
		r.settledPut(key("k"), "base")
		used(1)
		time.Sleep(time.Second)
		r.cutOff(true)
		r.put(key("k"), "mine")
		time.Sleep(time.Minute)
		used(1)
		r.foreign(key("k"), "theirs")
		r.cutOff(false)
		r.settleWithin(time.Minute)
		used(1)
		r.wantLetters(letter{"lost", false, journal.Put, "mine"})
		r.cutOff(true)
		r.del(key("k"))
		time.Sleep(time.Second)
		r.set(func(f *fake) { delete(f.entries, key("k")) })
		r.cutOff(false)
		r.settleWithin(time.Minute)
		used(1)
		r.set(func(f *fake) {
			f.answer = func(c call) reply {
				if c.write() {
					return reply{}
				}
				return reply{status: 429, header: http.Header{"Retry-After": {"20"}}, body: `{"detail":"slow"}`}
			}
		})
		r.put(key("k"), "again")
		time.Sleep(5 * time.Second)
		used(1)
		r.set(func(f *fake) { f.answer = nil })
		r.settleWithin(time.Minute)
		used(2)
	})
}

// The state that a write overwrites is kept once, however often the write is retried.
func TestWhatIsOverwrittenIsKeptOnce(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.settledPut(key("k"), "base")
		r.foreign(key("k"), "theirs")
		time.Sleep(time.Second)
		r.set(func(f *fake) {
			f.answer = func(c call) reply {
				if c.value == "mine" && c.n < 4 {
					return reply{status: 500, body: "<html>"}
				}
				return reply{}
			}
		})
		r.put(key("k"), "mine")
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "mine")
		r.wantLetters(letter{"lost", true, journal.Put, "theirs"})
	})
}

// A write that upstream failed over may have arrived: the newer one does not lose to it.
func TestAWriteDoesNotLoseAgainstOnesOwn(t *testing.T) {
	for name, answer := range map[string]reply{
		"failed over":  {status: 502, body: "<html>", applied: true},
		"not answered": {cut: true, late: 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			fenced(t, func(t *testing.T, r *rig) {
				r.settledPut(key("k"), "base")
				time.Sleep(time.Second)
				r.set(func(f *fake) {
					f.answer = func(c call) reply {
						if c.value == "first" && c.n == 1 {
							return answer
						}
						return reply{}
					}
				})
				r.put(key("k"), "first")
				time.Sleep(linger + 3*r.latency/2)
				r.put(key("k"), "second") // before the first one arrives, or is known to have arrived
				r.settleWithin(2 * time.Minute)
				r.wantHeld(key("k"), "second")
				r.wantLetters()
			})
		})
	}
}

// A second import of an entry replaces the first, which is on its way upstream and arrives there with a later time.
// The second does not give way to it, for readers have had the second.
func TestAnImportDoesNotLoseAgainstTheOneThatItReplaced(t *testing.T) {
	imports := func(t *testing.T, r *rig) {
		imported := func(value string, ago time.Duration) {
			r.append(journal.NewWrite{
				ID: key("k"), Op: journal.Put, Value: value, ListBytes: len(value), LosesTies: true, Fenced: true,
				WrittenAt: float64(time.Now().Add(-ago).Unix()),
			})
		}
		time.Sleep(time.Hour)
		imported("older", 50*time.Minute)
		time.Sleep(linger + 3*r.latency/2) // it is on its way
		imported("newer", 20*time.Minute)
		r.settleWithin(time.Minute)
		r.wantKnown(key("k"), "newer", journal.Settled)
	}
	t.Run("by time", func(t *testing.T) {
		fenced(t, func(t *testing.T, r *rig) {
			r.settledPut(key("calibrates"), "v")
			imports(t, r)
			r.wantHeld(key("k"), "newer")
		})
	})
	t.Run("exactly", func(t *testing.T) {
		exact(t, func(t *testing.T, v *versioned) {
			imports(t, v.rig)
			v.wantNow(key("k"), "newer", false)
		})
	})
}

// A copy that gives way leaves no dead letter, and the log speaks of none.
func TestALosingImportIsLoggedAsWhatItIs(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.settledPut(key("calibrates"), "v")
		time.Sleep(time.Hour)
		r.foreign(key("k"), "theirs")
		r.append(journal.NewWrite{ID: key("k"), Op: journal.Put, Value: "file", ListBytes: 4, WrittenAt: float64(time.Now().Add(-time.Minute).Unix()), LosesTies: true, Fenced: true})
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "theirs")
		r.wantLetters()
		if log := r.log.take(); !strings.Contains(log, "is given up") || strings.Contains(log, "is a dead letter now") {
			t.Errorf("the log says: %s", log)
		}
	})
}

// A write whose fence lasts into the next window is counted there, durably before it is sent.
func TestAFenceThatOutlastsTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed := quota.Limit{Writes: 100, Period: 10 * time.Second, MaxAge: time.Second}
		fs := vfs.NewMem()
		r := openRig(&rig{fake: newShared(t), t: t, fs: fs, fenced: "a.test", quota: func(string) quota.Limit { return allowed }})
		ledger := func() (used int) {
			for _, spent := range quota.OpenLedger("journal.quota", fs, slog.New(slog.DiscardHandler)).Spent() {
				if spent.Ends.After(time.Now()) {
					used += spent.Used
				}
			}
			return used
		}
		r.settledPut(key("first"), "v")
		time.Sleep(time.Until(time.Now().Truncate(allowed.Period).Add(allowed.Period - 500*time.Millisecond)))
		writes := 0
		r.set(func(f *fake) {
			f.answer = func(c call) reply {
				if !c.write() {
					return reply{after: time.Second}
				}
				if writes++; ledger() == 0 {
					t.Error("a request has left that the ledger does not count in its window")
				}
				return reply{}
			}
		})
		began := time.Now().Truncate(allowed.Period)
		r.put(key("k"), "v")
		r.settleWithin(time.Minute)
		if writes != 1 || !time.Now().Truncate(allowed.Period).After(began) {
			t.Errorf("%d writes, the last in the window of %v", writes, time.Now())
		}
	})
}

// If a gateway's clock makes the Date of the answers, other hosts' writes after this host's first write
// still count, also after the gateway has changed.
func TestOtherHostsWritesBehindAGatewayWithAWrongClock(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		for i, ahead := range []time.Duration{time.Hour, -time.Hour, 2 * time.Hour} {
			r.set(func(f *fake) { f.gateway = ahead })
			for _, id := range []journal.ID{key(fmt.Sprint("first", i)), key(fmt.Sprint("second", i))} {
				r.settledPut(id, "mine")
				r.foreign(id, "theirs")
				if state := r.read(id); state.Value != "theirs" || state.Rejection != journal.NotRejected {
					t.Errorf("ahead by %v: %q is known of %s, disbelief %d", ahead, state.Value, id, state.Rejection)
				}
			}
		}
	})
}

// Upstream already holds what a write would leave, and has shown since when. A listing that shows the
// same is not of an older state.
func TestWhatUpstreamHeldAlreadyIsNoOlderState(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.settledPut(key("k"), "base")
		r.cutOff(true)
		time.Sleep(time.Second)
		r.put(key("k"), "same")
		time.Sleep(time.Minute)
		r.foreign(key("k"), "same")
		r.cutOff(false)
		r.settleWithin(time.Minute)
		base, err := r.journal.Fence.Base(key("k"))
		if err != nil {
			t.Fatal(err)
		}
		shown := r.shownAt(key("k"))
		if base.Origin.NewerThan(shown) {
			t.Errorf("%v is newer than what upstream shows of it, %f", base.Origin, shown)
		}
		if !base.Origin.NewerThan(shown - 0.01) {
			t.Errorf("%v is not newer than what was before it", base.Origin)
		}
	})
}
