package flush_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// While a request is in flight, Drop waits for it to end. A write that settles is not dropped.
func TestByHandBesideARequest(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = 3 * time.Second
		r.put(key("k"), "v")
		time.Sleep(linger + time.Millisecond)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, err := r.flusher.Drop(ctx, key("k"), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if _, err := r.flusher.Drop(t.Context(), key("k"), 0); !errors.Is(err, journal.ErrNotPending) {
			t.Errorf("the error is %v", err)
		}
		r.wantHeld(key("k"), "v")
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
		r.wantState(key("k"), "old")
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

// A write that may have reached upstream, and is dropped, leaves no old copy.
func TestDropAfterItWasSent(t *testing.T) {
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
