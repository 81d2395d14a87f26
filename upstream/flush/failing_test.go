package flush_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/botwired/botwired/upstream"
)

// contract 16: an entry that always fails is no outage, even if nothing else is sent.
func TestOneSickEntryIsNoOutage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if c.id == key("sick") {
				return detail(http.StatusInternalServerError)
			}
			return reply{}
		}
		r.put(key("sick"), "v")
		time.Sleep(time.Minute)
		if got := r.health.Report(); got.State != upstream.Degraded || got.Reason != "writes fail: HTTP 500: status 500" {
			t.Errorf("upstream is taken to be %s: %s", got.State, got.Reason)
		}
		r.set(func(f *fake) { f.down = true })
		r.put(key("other"), "v")
		time.Sleep(time.Minute)
		if got := r.health.Report(); got.State != upstream.Down {
			t.Errorf("upstream is taken to be %s, and nobody listens", got.State)
		}
	})
}
