package flush_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
	"github.com/botwired/botwired/upstream/flush"
	"github.com/botwired/botwired/upstream/quota"
)

// outcome is what the caller of a write that waits for upstream gets.
type outcome struct {
	settled bool
	err     error
	took    time.Duration
}

// status returns the HTTP status of the caller's answer; 0 if only the journal knows it.
func (o outcome) status(t *testing.T) int {
	t.Helper()
	var unconfirmed *flush.Unconfirmed
	var said *upstream.ServiceAnswer
	switch {
	case o.settled && o.err == nil:
		return http.StatusOK
	case o.err == nil:
		return 0
	case errors.As(o.err, &unconfirmed):
		return http.StatusGatewayTimeout
	case errors.As(o.err, &said):
		status, _ := said.Answer()
		return status
	}
	t.Fatalf("the error is %v", o.err)
	return 0
}

// confirm waits for up to timeout until upstream has confirmed a write.
func (r *rig) confirm(w journal.Write, itself bool) outcome {
	r.t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
	defer cancel()
	settled, err := r.flusher.Confirm(ctx, w.ID, w.Seq, itself)
	return outcome{settled, err, time.Since(start)}
}

func (r *rig) putConfirmed(id journal.ID, value string) outcome {
	r.t.Helper()
	return r.confirm(r.put(id, value), false)
}

// wantState checks the state of an entry that the journal knows. With an empty value, none must be
// known.
func (r *rig) wantState(id journal.ID, value string) {
	r.t.Helper()
	state, err := r.journal.Lookup(id)
	if err != nil {
		r.t.Fatal(err)
	}
	if state.Value != value {
		r.t.Errorf("known of %s: %+v, want %q", id, state, value)
	}
}

// wantReceipt checks the receipt of a write.
func (r *rig) wantReceipt(seq uint64, state journal.ReceiptState, by uint64, reason string) {
	r.t.Helper()
	got, err := r.journal.Receipts.Read(r.t.Context(), seq)
	if err != nil || got.State != state || got.By != by || got.Reason != reason {
		r.t.Errorf("write %d is %s by %d, %q, %v; want %s by %d, %q", seq, got.State, got.By, got.Reason, err, state, by, reason)
	}
}

func TestAConfirmedWriteIsUpstream(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if got := r.putConfirmed(key("k"), "v"); !got.settled || got.err != nil || got.took != r.latency {
			t.Errorf("%+v, want it settled after %v, without a linger", got, r.latency)
		}
		r.wantHeld(key("k"), "v")
		if got := r.confirm(r.del(key("k")), false); !got.settled || got.err != nil {
			t.Errorf("the delete: %+v", got)
		}
		if value, held := r.holds(key("k")); held {
			t.Errorf("upstream still holds %q", value)
		}
		w := r.put(key("k"), "before")
		r.settleWithin(time.Minute)
		if got := r.confirm(w, false); got.settled || got.err != nil || got.took != 0 {
			t.Errorf("a write that has settled, which the journal knows: %+v", got)
		}
	})
}

// contract 14: a write that upstream does not confirm is answered with what upstream says of it for good, or stays
// pending.
func TestAWriteThatUpstreamDoesNotConfirm(t *testing.T) {
	portal := reply{status: 200, header: http.Header{"Content-Type": {"text/html"}}, body: "<html>log in</html>"}
	for name, row := range map[string]struct {
		reply  reply
		down   bool
		status int
		took   time.Duration // at least; at most a second more
		dead   int
	}{
		"refused":       {reply: detail(400), status: 400, dead: 1},
		"too large":     {reply: detail(413), status: 413, dead: 1},
		"invalid":       {reply: reply{status: 422, body: `{"detail":[{"type":"missing","loc":["body","value"],"msg":"Field required"}]}`}, status: 422, dead: 1},
		"not let in":    {reply: detail(401), status: 504},
		"throttled":     {reply: detail(429), status: 504},
		"fails":         {reply: detail(500), status: 504},
		"portal":        {reply: portal, status: 504},
		"hangs":         {reply: reply{hang: true}, status: 504, took: timeout},
		"cut after all": {reply: reply{cut: true, applied: true}, status: 504},
		"down":          {down: true, status: 504},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.putConfirmed(key("k"), "old")
				r.set(func(f *fake) {
					f.answer = func(call) reply { return row.reply }
					f.down = row.down
				})
				time.Sleep(time.Minute) // until connections end
				got := r.putConfirmed(key("k"), "new")
				if status := got.status(t); status != row.status || got.took < row.took || got.took > timeout {
					t.Errorf("%d after %v: %v, want %d", status, got.took, got.err, row.status)
				}
				if pending, dead := r.pending(), r.journal.Stats().DeadLetters; dead != row.dead || pending != 1-row.dead {
					t.Errorf("%d are pending, %d dead: %s", pending, dead, r.left())
				}
				r.set(func(f *fake) { f.answer, f.down = nil, false })
				r.settleWithin(2 * (backoffMax + lateWindow))
				if row.dead == 0 {
					r.wantHeld(key("k"), "new")
				} else {
					r.wantHeld(key("k"), "old")
				}
			})
		})
	}
}

// contract 14: nobody waits for a write that botwired does not send now.
func TestNobodyWaitsForAWriteThatIsHeld(t *testing.T) {
	held := func(t *testing.T, r *rig, id journal.ID, what string) time.Duration {
		t.Helper()
		got := r.putConfirmed(id, "v")
		var unconfirmed *flush.Unconfirmed
		if !errors.As(got.err, &unconfirmed) || got.took != 0 || unconfirmed.RetryAfter() <= 0 {
			t.Errorf("%s: %+v", what, got)
			return time.Minute
		}
		return unconfirmed.RetryAfter()
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.down = true
		for range 3 {
			r.putConfirmed(key("k"), "v")
		}
		held(t, r, key("other"), "while upstream is down")
		r.set(func(f *fake) { f.down = false })
		r.settleWithin(time.Minute)
		r.set(func(f *fake) { f.answer = func(call) reply { return detail(403) } })
		if got := r.putConfirmed(key("k"), "w"); got.status(t) != 504 || got.took > time.Second {
			t.Errorf("as the namespace is paused: %+v", got)
		}
		held(t, r, key("other"), "while the namespace is paused")
		r.set(func(f *fake) { f.answer = nil })
		r.settleWithin(2 * backoffMax)
		r.set(func(f *fake) {
			f.answer = func(call) reply {
				return reply{status: 429, header: http.Header{"Retry-After": {"90"}}, body: `{"detail":"slow down"}`}
			}
		})
		if got := r.putConfirmed(key("k"), "x"); got.status(t) != 504 || got.took > time.Second {
			t.Errorf("as the namespace is throttled: %+v", got)
		}
		if wait := held(t, r, key("other"), "while the namespace is throttled"); wait < 80*time.Second || wait > 90*time.Second {
			t.Errorf("Retry-After is %v", wait)
		}
	})
	quota := func(namespace string) quota.Limit {
		return quota.Limit{Writes: 3, Period: time.Hour, MaxAge: time.Minute}
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		r := newRigWithin(t, newFake(t), vfs.NewMem(), quota)
		for range 3 {
			r.putConfirmed(key("k"), "v")
			time.Sleep(19 * time.Minute)
		}
		if wait := held(t, r, key("k"), "with the quota used up"); wait > time.Hour {
			t.Errorf("Retry-After is %v", wait)
		}
		r.settleWithin(time.Hour)
	})
}

// contract 14: the callers that wait already hear of it, too, when upstream turns out to be down, or their namespace has
// to wait, by the failure of another entry's write.
func TestThoseWhoWaitHearThatTheirWritesAreHeld(t *testing.T) {
	for name, row := range map[string]struct {
		reply  reply
		within time.Duration
	}{
		"hangs":      {reply{hang: true}, timeout + timeout/2},
		"throttled":  {reply{status: 429, header: http.Header{"Retry-After": {"90"}}, after: time.Second}, 3 * time.Second},
		"not let in": {reply{status: 403, after: time.Second}, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = func(call) reply { return row.reply }
				ctx, cancel := context.WithTimeout(t.Context(), 10*timeout)
				defer cancel()
				start := time.Now()
				ends := make(chan time.Duration)
				const callers = 300 // more than there are requests in flight
				for n := range callers {
					w := r.put(key(fmt.Sprint(n)), "v")
					go func() {
						if _, err := r.flusher.Confirm(ctx, w.ID, w.Seq, false); err == nil {
							t.Errorf("write %d is confirmed", w.Seq)
						}
						ends <- time.Since(start)
					}()
				}
				longest := time.Duration(0)
				for range callers {
					longest = max(longest, <-ends)
				}
				if longest > row.within {
					t.Errorf("a caller has waited %v, want at most %v", longest, row.within)
				}
			})
		})
	}
}

// A caller that leaves takes nothing with it. A newer write that settles counts, unless the caller asks for its own.
func TestTheCallersOfAWriteThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ctx, leave := context.WithCancel(t.Context())
		leave()
		left := r.put(key("left"), "v")
		if settled, err := r.flusher.Confirm(ctx, left.ID, left.Seq, false); settled || err == nil {
			t.Errorf("settled: %v, %v", settled, err)
		}
		r.settleWithin(time.Minute)
		r.wantHeld(key("left"), "v")

		r.set(func(f *fake) { f.answer = func(c call) reply { return reply{after: time.Second} } })
		r.put(key("k"), "under way")
		time.Sleep(linger + time.Millisecond)
		replaced := r.put(key("k"), "replaced")
		with, alone := make(chan outcome, 1), make(chan outcome, 1)
		go func() { with <- r.confirm(replaced, false) }()
		go func() { alone <- r.confirm(replaced, true) }()
		synctest.Wait()
		newer := r.put(key("k"), "newer")
		if got := <-with; !got.settled || got.err != nil {
			t.Errorf("with the newer one: %+v", got)
		}
		if got := <-alone; got.settled || got.err != nil {
			t.Errorf("by itself: %+v", got)
		}
		r.wantReceipt(replaced.Seq, journal.ReceiptSuperseded, newer.Seq, "")
	})
}

// A write that a newer one has replaced is not refused with that one.
func TestARefusalIsOfOneWrite(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.set(func(f *fake) { f.answer = func(call) reply { return detail(400) } })
		r.linger.Store(int64(time.Hour))
		replaced, newer := r.put(key("k"), "replaced"), r.put(key("k"), "newer")
		with := make(chan outcome, 1)
		go func() { with <- r.confirm(replaced, false) }()
		if got := r.confirm(newer, false); got.status(t) != 400 {
			t.Errorf("the newer one: %+v", got)
		}
		if got := <-with; got.settled || got.err != nil {
			t.Errorf("the one before: %+v", got)
		}
	})
}

// unread is a journal that has not found all writes of before its start yet.
type unread struct {
	flush.Journal
	rebuilt chan struct{}
}

func (u unread) Rebuilt() <-chan struct{} { return u.rebuilt }

// contract 13: nothing is said of a write from before the start until the journal is read.
func TestAWriteIsNotSettledBeforeTheJournalIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan struct{})
		r := &rig{fake: newFake(t), t: t, fs: vfs.NewMem(), adjust: func(o *flush.Options) { o.Journal = unread{o.Journal, read} }}
		openRig(r)
		for _, is := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if got := r.flusher.Await(ctx, key("k"), 1); got != is {
				t.Errorf("settled: %v, want %v", got, is)
			}
			cancel()
			if !is {
				close(read)
			}
		}
	})
}
