package flush_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
	"github.com/botwired/botwired/upstream/flush"
)

// Something that imitates BotWire refuses everything: a few writes become dead letters, and then the
// namespace waits and says so. The first write that upstream accepts ends the pause.
func TestARunOfRefusalsPausesTheNamespace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(call) reply { return detail(400) }
		r.putMany("ns", 300)
		time.Sleep(50 * time.Minute)
		if n := r.journal.Stats().DeadLetters; n != 5 {
			t.Errorf("%d dead letters, want the first 5", n)
		}
		why, until := r.flusher.Waits("ns")
		if want := "paused: it refuses one write after another: HTTP 400: status 400"; why != want || time.Until(until) > backoffMax {
			t.Errorf("it waits until %v because %q", until, why)
		}
		if n := r.log.lines("upstream refuses the writes of a namespace"); n != 1 || r.log.lines("does not let") != 0 {
			t.Errorf("%d lines in the log say that it refuses writes, and %d that it does not let them in", n, r.log.lines("does not let"))
		}
		if n := r.log.lines("refuses one write after another"); n != 1 {
			t.Errorf("%d lines in the log", n)
		}
		r.set(func(f *fake) { f.answer = nil })
		r.settleWithin(backoffMax + 40*time.Second)
		if n := r.journal.Stats().DeadLetters; n != 5 || r.flusher.Paused("ns") != "" {
			t.Errorf("%d dead letters in the end; paused: %q", n, r.flusher.Paused("ns"))
		}
	})
}

// Refused writes do not block others: the flusher tries another write of a paused namespace each time.
// A write that upstream refuses for an hour becomes a dead letter after all.
func TestRefusedWritesHoldUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(c call) reply {
			if strings.HasPrefix(c.id.Key, "bad") {
				return detail(422)
			}
			return reply{}
		}
		for i := range 20 {
			r.put(key(fmt.Sprint("bad", i)), "v")
		}
		for i := range 20 {
			r.put(key(fmt.Sprint("good", i)), "v")
		}
		time.Sleep(15 * time.Minute)
		for i := range 20 {
			r.wantHeld(key(fmt.Sprint("good", i)), "v")
		}
		r.settleWithin(4 * time.Hour)
		if n := r.journal.Stats().DeadLetters; n != 20 {
			t.Errorf("%d dead letters, want 20", n)
		}
	})
}

// Upstream refuses one write after another, and the agent writes no faster than upstream answers: the
// count does not depend on the number of pending writes.
func TestARunOfRefusalsIsCountedAcrossWrites(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(call) reply { return detail(400) }
		for i := range 20 {
			r.put(key(fmt.Sprint(i)), "v")
			time.Sleep(time.Second)
		}
		if n := r.journal.Stats().DeadLetters; n != 5 {
			t.Errorf("%d dead letters, want 5", n)
		}
	})
}

// A refused write that a newer one has superseded leaves no dead letter, and is not counted as one.
func TestARefusedWriteThatIsSupersededIsNotDead(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.latency = time.Second
		r.answer = func(c call) reply {
			if c.value == "bad" {
				return detail(422)
			}
			return reply{}
		}
		bad := r.put(key("k"), "bad")
		time.Sleep(linger + 100*time.Millisecond) // in flight
		awaited := make(chan bool, 1)
		go func() { awaited <- r.flusher.Await(t.Context(), bad.ID, bad.Seq) }()
		go func() {
			time.Sleep(100 * time.Millisecond)
			r.put(key("k"), "good")
		}()
		p, _, err := flushNow(t, r, "", time.Minute)
		if diff := cmp.Diff(flush.Result{Settled: 1}, p); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if !<-awaited {
			t.Error("the caller is told that the write is dead, and a newer one has settled")
		}
		if n := r.journal.Stats().DeadLetters + r.log.lines("dead letter"); n != 0 {
			t.Errorf("%d dead letters are kept or logged", n)
		}
	})
}

// A write that may have arrived may still be there, even if a later attempt was not sent.
func TestALaterAttemptThatIsNotSentTakesNothingBack(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = func(call) reply {
			return reply{status: http.StatusInternalServerError, header: http.Header{"Connection": {"close"}}, applied: true}
		}
		w := r.put(key("k"), "v")
		time.Sleep(linger + 60*time.Millisecond)
		r.set(func(f *fake) { f.down = true })
		other := r.put(key("other"), "v")
		time.Sleep(time.Minute)
		for of, want := range map[*journal.Write][]journal.Content{&w: {journal.ContentOf(journal.Put, "v")}, &other: nil} {
			left, _, err := r.journal.Left(*of)
			if diff := cmp.Diff(want, left); diff != "" || err != nil {
				t.Errorf("%v; left of %s (-want +got):\n%s", err, of.ID, diff)
			}
		}
	})
}
