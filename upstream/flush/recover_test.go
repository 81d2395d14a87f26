package flush_test

import (
	"errors"
	"testing"
	"time"

	"github.com/botwired/botwired/upstream"
)

// A confirmed write unblocks reads: after a successful flush, no read is turned away because of an
// outage that is over.
func TestConfirmedWriteLetsReadsGo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		reader := upstream.NewReader(upstream.ReaderOptions{
			Engine: r.client, Health: r.health, Slots: r.slots, BackoffInitial: backoffInitial, BackoffMax: backoffMax, Patience: backoffMax,
		})
		wantUnavailable := func(when string) {
			t.Helper()
			if _, err := reader.Get(t.Context(), key("unknown"), true); !errors.As(err, new(*upstream.Unavailable)) {
				t.Errorf("%s: %v, want that upstream is unavailable", when, err)
			}
		}
		r.down = true
		for range 10 { // probes, until the next one is seconds away
			wantUnavailable("down")
			time.Sleep(backoffMax)
		}
		wantUnavailable("down")
		r.set(func(f *fake) { f.down = false })
		wantUnavailable("until the next probe")
		r.put(key("k"), "v")
		r.settleWithin(linger + 3*r.latency)
		for range 2 {
			if o, err := reader.Get(t.Context(), key("unknown"), true); o != nil || err != nil {
				t.Errorf("read after a confirmed write: %+v, %v, want that there is nothing", o, err)
			}
		}
		if got := r.health.Report(); got.State != upstream.Up {
			t.Errorf("upstream is taken to be %s: %s", got.State, got.Reason)
		}
	})
}
