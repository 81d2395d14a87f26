package upstream_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream"
)

func (r *rig) send(id journal.ID) (settled, dead bool, took time.Duration) {
	r.t.Helper()
	start := time.Now()
	_, settled, dead, err := r.flusher.Send(r.t.Context(), id)
	if err != nil {
		r.t.Errorf("sending %s: %v", id, err)
	}
	return settled, dead, time.Since(start)
}

// A person's word ends the linger, a backoff and a namespace's wait for one entry, and for no
// other.
func TestSendByHand(t *testing.T) {
	throttled := reply{status: 429, header: http.Header{"Retry-After": {"3600"}}, body: `{"detail":"slow down"}`}
	for name, answer := range map[string]reply{
		"lingers": {}, "throttled": throttled, "paused": detail(403), "fails": {status: 503}, "cut": {cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.linger.Store(int64(time.Hour))
				if name != "lingers" {
					r.linger.Store(int64(linger))
					r.answer = func(call) reply { return answer }
				}
				r.putMany("ns", 5)
				time.Sleep(time.Minute)
				before := len(r.requests(call.write))
				settled, dead, took := r.send(key("3"))
				if name == "lingers" != settled || dead || took > time.Second {
					t.Errorf("settled %v, dead %v after %v", settled, dead, took)
				}
				r.set(func(f *fake) { f.answer, f.calls = nil, nil })
				if name != "lingers" && before == 0 {
					t.Error("nothing was sent before")
				}
				if name == "lingers" {
					return
				}
				settled, dead, took = r.send(key("3"))
				if settled != (name != "cut") || dead || took > time.Second {
					t.Errorf("when upstream is well: settled %v, dead %v after %v", settled, dead, took)
				}
				if got := r.requests(call.write); len(got) == 0 || got[0].id != key("3") {
					t.Errorf("upstream was sent %+v first", got)
				}
				if why, _ := r.flusher.EntryWaits(key("3")); name == "cut" && !strings.Contains(why, "in doubt") {
					t.Errorf("it waits because of %q", why)
				}
				r.settleWithin(time.Minute)
			})
		})
	}
}

func TestSendByHandOfWhatIsNotPending(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.linger.Store(int64(time.Hour))
		_, _, _, err := r.flusher.Send(t.Context(), key("k"))
		if !errors.Is(err, journal.ErrNotPending) {
			t.Errorf("the error is %v", err)
		}
		r.set(func(f *fake) { f.answer = func(call) reply { return detail(400) } })
		r.put(key("k"), "v")
		if settled, dead, _ := r.send(key("k")); settled || !dead {
			t.Errorf("refused: settled %v, dead %v", settled, dead)
		}
	})
}

// Who does not wait for the end of the attempt does not take the request back: cut off, it could
// land after a newer one (contract 14).
func TestSendByHandOutlivesItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.linger.Store(int64(time.Hour))
		r.latency = 3 * time.Second
		r.put(key("k"), "v")
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, settled, dead, err := r.flusher.Send(ctx, key("k")); settled || dead || err != nil {
			t.Errorf("settled %v, dead %v, %v", settled, dead, err)
		}
		r.settleWithin(3 * time.Second)
		if got := r.requests(anything); len(got) != 1 {
			t.Errorf("upstream was asked %+v", got)
		}
	})
}

// While a request is under way, a person waits for its end, and a settled write is not sent
// again.
func TestByHandBesideARequest(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = 3 * time.Second
		r.put(key("k"), "v")
		time.Sleep(linger + time.Millisecond)
		_, _, _, err := r.flusher.Send(t.Context(), key("k"))
		if !errors.Is(err, journal.ErrNotPending) || len(r.requests(anything)) != 1 {
			t.Errorf("the error is %v after %d requests", err, len(r.requests(anything)))
		}
		r.put(key("k"), "w")
		time.Sleep(linger + time.Millisecond)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, err := r.flusher.Drop(ctx, key("k"), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if _, err := r.flusher.Drop(t.Context(), key("k"), 0); !errors.Is(err, journal.ErrNotPending) {
			t.Errorf("the error is %v", err)
		}
		r.wantHeld(key("k"), "w")
	})
}

// What a quota does not have, a person does not get either.
func TestSendByHandKeepsToTheQuota(t *testing.T) {
	quota := func(string) upstream.Quota { return upstream.Quota{Writes: 2, Period: time.Hour, MaxAge: time.Minute} }
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		r := newRigWithin(t, newFake(t), vfs.NewMem(), quota)
		r.putMany("ns", 4)
		for i, want := range []bool{true, true, false} {
			settled, _, _ := r.send(key(string(rune('0' + i))))
			if settled != want {
				t.Errorf("the write %d: settled %v, want %v", i, settled, want)
			}
		}
		if why, _ := r.flusher.EntryWaits(key("2")); !strings.HasPrefix(why, "quota: ") {
			t.Errorf("it waits because of %q", why)
		}
		r.settleWithin(2 * time.Hour)
	})
}

func TestDropByHand(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.put(key("k"), "old")
		r.settleWithin(time.Minute)
		time.Sleep(time.Minute) // the connections end
		r.set(func(f *fake) { f.down = true })
		w := r.put(key("k"), "dropped")
		time.Sleep(time.Minute)
		if _, err := r.flusher.Drop(t.Context(), key("k"), w.Seq+1); !errors.Is(err, journal.ErrNotPending) {
			t.Errorf("another write: %v", err)
		}
		dropped, err := r.flusher.Drop(t.Context(), key("k"), w.Seq)
		if err != nil || dropped.Seq != w.Seq || r.pending() != 0 {
			t.Fatalf("%+v, %v", dropped, err)
		}
		r.wantState(key("k"), "old", false)
		letter, err := r.journal.ReadDeadLetter(w.Seq)
		if err != nil || letter.Kind != journal.Dropped || letter.Value != "dropped" {
			t.Errorf("%+v, %v", letter, err)
		}
		r.set(func(f *fake) { f.down = false })
		time.Sleep(time.Hour)
		r.wantHeld(key("k"), "old")
		if _, err := r.journal.Retry(w.Seq, w.Seq); err != nil {
			t.Error(err)
		}
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "dropped")
	})
}

// A write that may have reached upstream is no less in doubt because it is dropped.
func TestDropByHandInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.put(key("k"), "old")
		r.settleWithin(time.Minute)
		r.set(func(f *fake) { f.answer = func(call) reply { return reply{cut: true, applied: true} } })
		w := r.put(key("k"), "landed")
		time.Sleep(linger + backoffInitial/4)
		if _, err := r.flusher.Drop(t.Context(), key("k"), w.Seq); err != nil {
			t.Fatal(err)
		}
		state, err := r.journal.Lookup(key("k"))
		if err != nil || state.Kind != journal.Unknown {
			t.Errorf("%+v, %v, want upstream to be asked", state, err)
		}
	})
}
