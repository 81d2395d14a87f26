package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

var simulateFor = flag.Duration("sim.for", 0, "how long to go on drawing scripts, in rounds of -rapid.checks; 0 is one round")

// The contract holds for any operations in any order, under any fault.
func TestSimulation(t *testing.T) {
	end := time.Now().Add(*simulateFor)
	for {
		rapid.Check(t, func(rt *rapid.T) {
			s := scripts().Draw(rt, "script")
			if violation := play(t, s); violation != "" {
				rt.Fatalf("%s\nscript:\n%s", violation, s)
			}
		})
		if t.Failed() || !time.Now().Before(end) {
			return
		}
	}
}

// play runs a script in a bubble of its own and returns the first violation.
func play(t *testing.T, s script) (violation string) {
	synctest.Test(t, func(*testing.T) {
		w, err := newWorld(s.quota, func(with *settings) {
			if with.lists = s.lists; s.sealed {
				seals(with)
			}
		})
		if err != nil {
			violation = err.Error()
			return
		}
		w.up.mu.Lock()
		w.up.odd = s.odd
		w.up.mu.Unlock()
		for i, line := range s.steps {
			if violation = w.step(line); violation != "" {
				violation = fmt.Sprintf("step %d (%s): %s", i+1, line, violation)
				break
			}
		}
		if violation == "" {
			violation = w.converge()
		}
		if violation != "" {
			violation += "\nupstream was asked:\n  " + strings.Join(w.up.log, "\n  ")
		}
		if err := w.close(); err != nil && violation == "" {
			violation = "closing: " + err.Error()
		}
	})
	return violation
}

// patience is how long after the last fault everything must have settled: a late window,
// and the pauses before it. A quota that is used up adds the rest of its window, and the next
// one.
const patience = 10 * time.Minute

// converge heals upstream and expects both sides to come to hold the same
// (contract 18).
func (w *world) converge() string {
	w.up.become(condition{}, "")
	w.squeeze(roomy)
	patience := patience + 2*w.settings.quota.Period
	for end := time.Now().Add(patience); w.node.journal.Stats().Pending > 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			return fmt.Sprintf("contract 18: %s after upstream has recovered, pending: %+v", patience, w.node.journal.PendingList("", 10))
		}
	}
	time.Sleep(lateWindow) // every late request has landed by now
	holds := w.up.snapshot()
	for _, id := range entries {
		if violation := w.burials(); violation != "" {
			return violation
		}
		value, ok := holds[id]
		if !w.beliefs[id].allows(state{ok, value}) {
			return fmt.Sprintf("contract 18: upstream holds %s of %s, and it is %s", state{ok, value}, id, w.beliefs[id].all())
		}
		w.beliefs[id].settleOn(state{ok, value})
		if violation := w.get(id, "Cache-Control", "no-cache"); violation != "" {
			return violation
		}
	}
	if err := w.up.unkept(w.node, w.evicted); err != nil {
		return err.Error()
	}
	return w.look()
}
