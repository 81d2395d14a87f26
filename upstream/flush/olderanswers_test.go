package flush_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// shownAt returns the updated_at that upstream shows of an entry now.
func (r *rig) shownAt(id journal.ID) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return float64(r.updated[id].Add(r.ahead[r.fenced]).UnixMicro()) / 1e6
}

// wantOlder checks that an answer from a time does not replace what the host knows (contract 7).
func (r *rig) wantOlder(id journal.ID, value string, at float64) {
	r.t.Helper()
	state, err := r.journal.Fill(id, &journal.Observation{Value: value, ListBytes: len(value), UpdatedAt: at}, func() bool { return true })
	if err != nil || state.Rejection != journal.OlderAnswer {
		r.t.Errorf("%q of %v replaces what is known: %+v, %v", value, at, state, err)
	}
}

// A fence that finds the write upstream has learned its time.
func TestNoOlderAnswerCountsAfterAWriteWasFoundUpstream(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		first := true
		r.answer = func(c call) reply {
			lost := first && c.method == http.MethodPut
			first = first && !lost
			return reply{hang: lost, applied: lost}
		}
		r.put(key("k"), "mine")
		time.Sleep(timeout)
		r.cutOff(true)
		time.Sleep(2 * lateWindow) // the request can no longer land
		r.cutOff(false)
		r.settleWithin(5 * time.Minute)
		r.wantOlder(key("k"), "other", r.shownAt(key("k"))-1e-3)
	})
}
