package flush_test

import (
	"encoding/json"
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

// A replica that lags behind shows the entry as it was before its last write. After a read-back, no such
// answer counts: neither that of the unanswered write nor another one.
func TestNoOlderAnswerCountsAfterAReadBack(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply { return reply{hang: c.value == "old", applied: c.value == "old"} }
		r.put(key("k"), "old")
		r.within(time.Minute, "old is upstream", func() bool { v, _ := r.holds(key("k")); return v == "old" })
		old := r.shownAt(key("k"))
		time.Sleep(timeout)
		r.put(key("k"), "new")
		r.settleWithin(time.Minute)
		r.wantOlder(key("k"), "old", old)
		r.wantOlder(key("k"), "other", r.shownAt(key("k"))-1e-3)
		r.wantKnown(key("k"), "new", journal.Settled)
	})
}

// The read-back itself may get such an answer.
func TestAReadBackMayGetAnOlderAnswer(t *testing.T) {
	fenced(t, func(t *testing.T, r *rig) {
		r.put(key("k"), "first")
		r.settleWithin(time.Minute)
		first := r.shownAt(key("k"))
		stale, _ := json.Marshal(map[string]any{
			"namespace": key("k").Namespace, "key": key("k").Key, "value": "first", "created_at": first, "updated_at": first,
		})
		time.Sleep(time.Minute)
		r.answer = func(c call) reply {
			if v, _ := r.holds(key("k")); c.method == http.MethodGet && v == "new" {
				return reply{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: string(stale)}
			}
			return reply{hang: c.value == "old"}
		}
		r.put(key("k"), "old")
		time.Sleep(timeout)
		r.put(key("k"), "new")
		r.settleWithin(time.Minute)
		r.wantHeld(key("k"), "new")
		r.wantKnown(key("k"), "new", journal.Settled)
	})
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
