package flush_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
	"github.com/botwired/botwired/upstream/quota"
)

// outcome is what the caller of a write through gets.
type outcome struct {
	written journal.Write
	settled bool
	err     error
	took    time.Duration
}

// status returns the HTTP status of the caller's answer.
func (o outcome) status(t *testing.T) int {
	t.Helper()
	var unwritten *flush.NotWritten
	var said *upstream.ServiceAnswer
	switch {
	case o.err == nil:
		return http.StatusOK
	case errors.As(o.err, &unwritten):
		return unwritten.WriteStatus()
	case errors.As(o.err, &said):
		status, _ := said.Answer()
		return status
	case errors.Is(o.err, journal.ErrFull):
		return http.StatusInsufficientStorage
	case errors.Is(o.err, journal.ErrAbsent):
		return http.StatusNotFound
	}
	t.Fatalf("the error is %v", o.err)
	return 0
}

func anyState() (func(uint64) bool, error) { return nil, nil }

func newPut(id journal.ID, value string) journal.NewWrite {
	return journal.NewWrite{ID: id, Op: journal.Put, Value: value, ListBytes: len(value)}
}

// through writes through and waits for the outcome.
func (r *rig) through(w journal.NewWrite) outcome {
	r.t.Helper()
	start := time.Now()
	written, settled, err := r.flusher.WriteThrough(r.t.Context(), w, anyState)
	return outcome{written, settled, err, time.Since(start)}
}

func (r *rig) putThrough(id journal.ID, value string) outcome {
	r.t.Helper()
	return r.through(newPut(id, value))
}

// beginThrough begins a write through.
func (r *rig) beginThrough(w journal.NewWrite) <-chan outcome {
	done := make(chan outcome, 1)
	go func() { done <- r.through(w) }()
	return done
}

// wantState checks the state of an entry that the journal knows. With an empty value, none must be
// known.
func (r *rig) wantState(id journal.ID, value string, inDoubt bool) {
	r.t.Helper()
	state, err := r.journal.Lookup(id)
	if err != nil {
		r.t.Fatal(err)
	}
	if state.Value != value || state.InDoubt != inDoubt {
		r.t.Errorf("known of %s: %+v, want %q, in doubt: %v", id, state, value, inDoubt)
	}
	if inDoubt && value != "" && time.Since(state.ConfirmedAt) < time.Hour {
		r.t.Errorf("a copy in doubt counts as confirmed at %v", state.ConfirmedAt)
	}
}

func TestWriteThroughIsUpstreamWhenItReturns(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		got := r.putThrough(key("k"), "v")
		if got.err != nil || !got.settled || got.written.Seq != 1 || got.took != r.latency {
			t.Errorf("%+v, want it settled after %v, without a linger", got, r.latency)
		}
		r.wantHeld(key("k"), "v")
		r.wantState(key("k"), "v", false)
		if r.pending() != 0 || len(r.settled) != 1 {
			t.Errorf("%d are pending, and %v were said to have settled", r.pending(), r.settled)
		}
		got = r.through(journal.NewWrite{ID: key("k"), Op: journal.Delete})
		if got.err != nil || !got.settled || got.written.Seq != 2 {
			t.Errorf("the delete: %+v", got)
		}
		if value, held := r.holds(key("k")); held {
			t.Errorf("upstream still holds %q", value)
		}
		if got = r.through(journal.NewWrite{ID: key("k"), Op: journal.Delete}); !errors.Is(got.err, journal.ErrAbsent) {
			t.Errorf("a delete of what is not there: %+v", got)
		}
	})
}

// A failed write through leaves nothing pending, and says so in time.
func TestWriteThroughThatFails(t *testing.T) {
	portal := reply{status: 200, header: http.Header{"Content-Type": {"text/html"}}, body: "<html>log in</html>"}
	for name, row := range map[string]struct {
		reply   reply
		down    bool
		status  int
		most    time.Duration
		inDoubt time.Duration // for how long
	}{
		"refused":       {reply: detail(400), status: 400},
		"too large":     {reply: detail(413), status: 413},
		"invalid":       {reply: reply{status: 422, body: `{"detail":[{"type":"missing","loc":["body","value"],"msg":"Field required"}]}`}, status: 422},
		"not let in":    {reply: detail(401), status: 401},
		"throttled":     {reply: detail(429), status: 429},
		"fails":         {reply: detail(500), status: 502},
		"portal":        {reply: portal, status: 502},
		"hangs":         {reply: reply{hang: true}, status: 504, most: timeout, inDoubt: lateWindow},
		"cut":           {reply: reply{cut: true}, status: 504, inDoubt: lateWindow},
		"cut after all": {reply: reply{cut: true, applied: true}, status: 504, inDoubt: lateWindow},
		"down":          {down: true, status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				if got := r.putThrough(key("k"), "old"); got.err != nil {
					t.Fatal(got.err)
				}
				r.set(func(f *fake) {
					f.answer = func(call) reply { return row.reply }
					f.down = row.down
				})
				time.Sleep(time.Minute) // until connections end
				got := r.putThrough(key("k"), "new")
				if status := got.status(t); status != row.status || got.took > max(row.most, time.Second) {
					t.Errorf("%d after %v: %v, want %d", status, got.took, got.err, row.status)
				}
				if strings.Contains(got.err.Error(), "new") {
					t.Errorf("the value is in the error: %v", got.err)
				}
				if n := r.pending(); n != 0 || r.journal.Stats().DeadLetters != 0 {
					t.Errorf("%d are pending: %s", n, r.left())
				}
				r.wantState(key("k"), "old", row.inDoubt > 0)
				if doubts, err := r.journal.InDoubt(); row.inDoubt > 0 && (err != nil || len(doubts) != 1) {
					t.Errorf("after a crash, these would be in doubt: %v, %v", doubts, err)
				}
				r.set(func(f *fake) { f.answer, f.down = nil, false })
				time.Sleep(row.inDoubt + time.Second)
				r.wantState(key("k"), "old", false)
				mayHaveLanded := row.status == 502 || row.status == 504
				if state, err := r.journal.Lookup(key("k")); err != nil || time.Since(state.ConfirmedAt) > time.Hour != mayHaveLanded {
					t.Errorf("the copy counts as confirmed at %v, %v", state.ConfirmedAt, err)
				}
				time.Sleep(time.Minute)
				if got := r.putThrough(key("k"), "newer"); got.err != nil || !got.settled {
					t.Errorf("afterwards: %+v", got)
				}
				if doubts, err := r.journal.InDoubt(); err != nil || len(doubts) > 0 {
					t.Errorf("later in doubt: %v, %v", doubts, err)
				}
			})
		})
	}
}

// Contract 14: an unanswered write through may land over a later write, which is read back and
// repaired.
func TestLateWriteThroughNeverWins(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if c.value == "late" {
				return reply{hang: true, late: timeout + lateWindow/2}
			}
			return reply{}
		}
		if got := r.putThrough(key("k"), "late"); got.status(t) != 504 {
			t.Errorf("%+v", got)
		}
		synctest.Wait() // the fake has seen that the caller has gone
		got := r.putThrough(key("k"), "new")
		if got.err != nil || got.settled || got.took > time.Second {
			t.Errorf("%+v, want it taken at once, and pending", got)
		}
		r.wantHeld(key("k"), "new")
		time.Sleep(lateWindow/2 + time.Second)
		r.wantHeld(key("k"), "late")
		r.settleWithin(lateWindow)
		r.wantHeld(key("k"), "new")
		r.wantState(key("k"), "new", false)
	})
}

// A restart in the middle leaves nothing pending, and the entry in doubt. A write through before the
// end of the doubt is accepted, and read back. Without one, readers trust no copy from before the
// doubt.
func TestCrashDuringAWriteThrough(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint("again ", again), func(t *testing.T) { crashDuringAWriteThrough(t, again) })
	}
}

func crashDuringAWriteThrough(t *testing.T, again bool) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		r := newRig(t, newFake(t), fs)
		if got := r.putThrough(key("k"), "old"); got.err != nil {
			t.Fatal(got.err)
		}
		r.set(func(f *fake) { f.answer = func(call) reply { return reply{hang: true, late: time.Second} } })
		under := r.beginThrough(newPut(key("k"), "new"))
		time.Sleep(100 * time.Millisecond)
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 1))})
		r.stop()
		<-under
		time.Sleep(time.Second)
		r = newRig(t, r.fake, crashed)
		r.set(func(f *fake) { f.answer = nil })
		if n := r.pending(); n != 0 {
			t.Errorf("%d are pending", n)
		}
		r.wantState(key("k"), "old", true)
		if again {
			if got := r.putThrough(key("k"), "newer"); got.err != nil || got.settled {
				t.Errorf("while in doubt: %+v, want it taken, and pending", got)
			}
			r.settleWithin(lateWindow + time.Second)
			r.wantHeld(key("k"), "newer")
			r.wantState(key("k"), "newer", false)
			return
		}
		time.Sleep(lateWindow + time.Second)
		r.wantState(key("k"), "old", false)
		if state, err := r.journal.Lookup(key("k")); err != nil || time.Since(state.ConfirmedAt) < time.Hour {
			t.Errorf("after the doubt, the copy from before it is confirmed at %v, %v", state.ConfirmedAt, err)
		}
		r.wantHeld(key("k"), "new")
		if got := r.putThrough(key("k"), "newest"); got.err != nil || !got.settled {
			t.Errorf("later: %+v", got)
		}
	})
}

// Contract 12: one request to an entry at a time, and a write through replaces the pending one.
func TestWriteThroughBesideAPendingWrite(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = time.Second
		r.put(key("k"), "under way")
		time.Sleep(linger + time.Millisecond)
		if got := r.putThrough(key("k"), "second"); got.err != nil || !got.settled || got.took > 2*time.Second {
			t.Errorf("behind a request: %+v", got)
		}
		r.put(key("k"), "unsent")
		if got := r.putThrough(key("k"), "third"); got.err != nil || !got.settled || got.took > time.Second+time.Millisecond {
			t.Errorf("over a pending write: %+v", got)
		}
		r.put(key("k"), "kept")
		r.set(func(f *fake) {
			f.answer = func(c call) reply {
				if c.value == "refused" {
					return detail(400)
				}
				return reply{}
			}
		})
		if got := r.putThrough(key("k"), "refused"); got.status(t) != 400 {
			t.Errorf("refused: %+v", got)
		}
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "kept")
		var values []string
		for _, c := range r.requests(call.write) {
			values = append(values, c.value)
		}
		if got, want := strings.Join(values, ", "), "under way, second, third, refused, kept"; got != want {
			t.Errorf("upstream was sent %s, want %s", got, want)
		}
		r.put(key("gone"), "here only")
		if got := r.through(journal.NewWrite{ID: key("gone"), Op: journal.Delete}); got.err != nil || !got.settled {
			t.Errorf("a delete of what is only pending: %+v", got)
		}
	})
}

// Many callers of one entry get their turns one after the other, and each is answered.
func TestWritesThroughToOneEntry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		last := make(map[uint64]string)
		var mu sync.Mutex
		for i := range 30 {
			wg.Go(func() {
				value := strings.Repeat("x", i+1)
				got := r.putThrough(key("k"), value)
				if got.err != nil || !got.settled {
					t.Errorf("%+v", got)
				}
				mu.Lock()
				defer mu.Unlock()
				last[got.written.Seq] = value
			})
		}
		wg.Wait()
		if len(last) != 30 {
			t.Errorf("%d numbers, want 30", len(last))
		}
		r.wantHeld(key("k"), last[30])
		r.wantState(key("k"), last[30], false)
		start := time.Now()
		for i := range concurrency / 2 { // other entries do not wait for each other
			wg.Go(func() { r.putThrough(key(strings.Repeat("k", i+2)), "v") })
		}
		wg.Wait()
		if took := time.Since(start); took > 2*r.latency {
			t.Errorf("%d entries took %v", concurrency/2, took)
		}
	})
}

// While upstream is known to be down, or the namespace waits, a write through fails at once. A write
// through also probes whether upstream is back.
func TestWriteThroughIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.down = true
		if got := r.putThrough(key("k"), "v"); got.status(t) != 503 {
			t.Errorf("%+v", got)
		}
		got := r.putThrough(key("k"), "v")
		var unwritten *flush.NotWritten
		if !errors.As(got.err, &unwritten) || got.took != 0 || unwritten.Wait <= 0 || unwritten.WriteStatus() != 503 {
			t.Errorf("while upstream is down: %+v", got)
		}
		r.set(func(f *fake) { f.down = false })
		time.Sleep(5 * time.Second)
		if got := r.putThrough(key("k"), "v"); got.err != nil || !got.settled {
			t.Errorf("when upstream is back: %+v", got)
		}
		r.set(func(f *fake) { f.answer = func(call) reply { return detail(403) } })
		if got := r.putThrough(key("k"), "v"); got.status(t) != 403 {
			t.Errorf("%+v", got)
		}
		asked := len(r.requests(anything))
		if got := r.putThrough(key("other"), "v"); got.status(t) != 503 || len(r.requests(anything)) != asked {
			t.Errorf("while the namespace is paused: %+v", got)
		}
		r.set(func(f *fake) { f.answer = nil })
		time.Sleep(backoffMax)
		if got := r.putThrough(key("k"), "v"); got.err != nil {
			t.Errorf("when it may be let in again: %+v", got)
		}
	})
}

func TestWriteThroughAndTheQuota(t *testing.T) {
	quota := func(namespace string) quota.Limit {
		return quota.Limit{Writes: map[string]int{"ns": 3}[namespace], Period: time.Hour, MaxAge: time.Minute}
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		r := newRigWithin(t, newFake(t), vfs.NewMem(), quota)
		for i := range 3 {
			if got := r.putThrough(key("k"), "v"); i == 0 && got.err != nil {
				t.Fatalf("%+v", got)
			}
			time.Sleep(19 * time.Minute)
		}
		r.set(func(f *fake) { f.answer = func(call) reply { return detail(400) } })
		if used := r.quotas.Reports()["ns"].Used; used != 3 {
			t.Errorf("%d are counted, want 3", used)
		}
		got := r.putThrough(key("k"), "v")
		var unwritten *flush.NotWritten
		if !errors.As(got.err, &unwritten) || unwritten.WriteStatus() != 429 || unwritten.Wait <= 0 || unwritten.Wait > time.Hour || got.took != 0 {
			t.Errorf("with the quota used up: %+v", got)
		}
		time.Sleep(unwritten.Wait + time.Second)
		r.set(func(f *fake) { f.answer = nil })
		if got := r.putThrough(key("k"), "v"); got.err != nil {
			t.Errorf("in the next window: %+v", got)
		}
		r.set(func(f *fake) {
			f.answer = func(call) reply {
				return reply{status: 429, header: http.Header{"Retry-After": {"90"}}, body: `{"detail":"slow down"}`}
			}
		})
		other := journal.ID{Namespace: "other", Key: "k"}
		got = r.putThrough(other, "v")
		var said *upstream.ServiceAnswer
		if !errors.As(got.err, &said) || said.RetryAfter() != 90*time.Second {
			t.Errorf("throttled: %+v", got)
		}
		if got := r.putThrough(other, "v"); got.status(t) != 429 || got.took != 0 {
			t.Errorf("while it is throttled: %+v", got)
		}
		if used := r.quotas.Reports()["ns"].Used; used != 1 {
			t.Errorf("%d are counted, want 1", used)
		}
	})
}
