package flush_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
)

// A caller that leaves before the entry's turn has come leaves nothing. If its write is in flight,
// WriteThrough waits for it.
func TestACallerOfAWriteThroughLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = 2 * time.Second
		first := r.beginThrough(newPut(key("k"), "first"))
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, _, err := r.flusher.WriteThrough(ctx, newPut(key("k"), "left"), anyState); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if got := <-first; got.err != nil {
			t.Errorf("%+v", got)
		}
		ctx, leave = context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, settled, err := r.flusher.WriteThrough(ctx, newPut(key("k"), "on its way"), anyState); err != nil || !settled {
			t.Errorf("settled: %v, %v", settled, err)
		}
		r.wantHeld(key("k"), "on its way")
		if n := len(r.requests(call.write)); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
}

func TestWriteThroughThatIsNotReady(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		no := errors.New("not as it should be")
		_, _, err := r.flusher.WriteThrough(t.Context(), newPut(key("k"), "v"), func() (func(uint64) bool, error) { return nil, no })
		if !errors.Is(err, no) || len(r.requests(anything)) != 0 {
			t.Errorf("the error is %v, and upstream was asked %d times", err, len(r.requests(anything)))
		}
		if got := r.putThrough(key("k"), "v"); got.err != nil {
			t.Errorf("%+v", got)
		}
		// A newer write is acknowledged during the request: it is sent next.
		_, _, err = r.flusher.WriteThrough(t.Context(), newPut(key("k"), "undone"), func() (func(uint64) bool, error) {
			return func(newest uint64) bool { return newest == 0 }, second(r.put(key("k"), "newer"), nil)
		})
		if !errors.Is(err, journal.ErrChanged) {
			t.Errorf("the error is %v", err)
		}
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "newer")
	})
}

func second[T any](_ T, err error) error { return err }

// A drain waits for the writes through in flight.
func TestDrainWaitsForWritesThrough(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = 3 * time.Second
		under := r.beginThrough(newPut(key("k"), "v"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r.flusher.Drain(ctx)
		synctest.Wait()
		select {
		case got := <-under:
			if got.err != nil {
				t.Errorf("%+v", got)
			}
		default:
			t.Error("the drain is over, and the write is under way")
		}
	})
}
