package upstream_test

import (
	"net/http"
	"testing"
	"time"
)

// contract 16: an entry that always fails is no outage, however quiet it is around it.
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
		if failing, why := r.flusher.Failing(); failing {
			t.Errorf("upstream is taken to be down: %s", why)
		}
		r.set(func(f *fake) { f.down = true })
		r.put(key("other"), "v")
		time.Sleep(time.Minute)
		if failing, _ := r.flusher.Failing(); !failing {
			t.Error("upstream is not taken to be down, and nobody listens")
		}
	})
}
