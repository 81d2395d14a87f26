package surface

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/api"
)

// An outage lasts from upstream's first failure until it is up again.
func TestOutagesOfTheLastHour(t *testing.T) {
	h := &lastHour{}
	begin := time.Unix(1e9, 0)
	at := func(minutes int) time.Time { return begin.Add(time.Duration(minutes) * time.Minute) }
	to := func(minutes int) *float64 { u := unixSeconds(at(minutes)); return &u }
	want := func(outages ...api.Outage) {
		t.Helper()
		if diff := cmp.Diff(outages, h.outages); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	h.look(api.UpstreamState{State: "up", Since: begin}, at(1))
	h.look(api.UpstreamState{State: "degraded", Since: at(2), Reason: "HTTP 500"}, at(3))
	h.look(api.UpstreamState{State: "degraded", Since: at(2), Reason: "HTTP 502"}, at(4))
	want(api.Outage{From: unixSeconds(at(2)), To: nil, State: "degraded", Reason: "HTTP 502"})
	h.look(api.UpstreamState{State: "down", Since: at(2), Reason: "refused"}, at(5))
	want(api.Outage{From: unixSeconds(at(2)), To: to(5), State: "degraded", Reason: "HTTP 502"}, api.Outage{From: unixSeconds(at(5)), To: nil, State: "down", Reason: "refused"})
	h.look(api.UpstreamState{State: "up", Since: at(6)}, at(7))
	want(api.Outage{From: unixSeconds(at(2)), To: to(5), State: "degraded", Reason: "HTTP 502"}, api.Outage{From: unixSeconds(at(5)), To: to(6), State: "down", Reason: "refused"})
	h.look(api.UpstreamState{State: "up", Since: at(6)}, at(66))
	want(api.Outage{From: unixSeconds(at(5)), To: to(6), State: "down", Reason: "refused"})
	for i := range 3 * outagesKept {
		h.look(api.UpstreamState{State: []string{"down", "up"}[i%2], Since: at(66)}, at(66))
	}
	if len(h.outages) != outagesKept {
		t.Errorf("%d outages are kept", len(h.outages))
	}
}
