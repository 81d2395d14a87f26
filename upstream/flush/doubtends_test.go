package flush_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/botwired/botwired/journal"
)

// landsLate makes the requests with one value hang and be carried out later.
func landsLate(value string, after time.Duration) func(call) reply {
	return func(c call) reply {
		switch c.value {
		case value:
			return reply{hang: true, late: after}
		case "refused":
			return detail(400)
		}
		return reply{}
	}
}

// Contract 14: an unanswered write may land after its entry has nothing pending any more, and over a
// later write. The later one is still sent at once, read back and repaired.
func TestDoubtOutlastsThePendingWrite(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, r *rig, w journal.Write){
		"dropped": func(t *testing.T, r *rig, w journal.Write) {
			if _, err := r.flusher.Drop(t.Context(), key("k"), w.Seq); err != nil {
				t.Error(err)
			}
		},
		"refused": func(_ *testing.T, r *rig, _ journal.Write) {
			r.put(key("k"), "refused")
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.answer = landsLate("late", timeout+lateWindow/2)
				w := r.put(key("k"), "late")
				time.Sleep(linger + timeout + backoffInitial/4)
				end(t, r, w)
				if st := r.journal.Stats(); st.Pending != 0 || st.DeadLetters != 1 {
					t.Fatalf("%d are pending, %d dead", st.Pending, st.DeadLetters)
				}
				if doubts, err := r.journal.InDoubt(); err != nil || len(doubts) != 1 {
					t.Errorf("after a crash, these would be in doubt: %v, %v", doubts, err)
				}
				r.put(key("k"), "new")
				time.Sleep(time.Second)
				r.wantHeld(key("k"), "new")
				time.Sleep(lateWindow / 2)
				r.wantHeld(key("k"), "late")
				r.settleWithin(lateWindow)
				r.wantHeld(key("k"), "new")
			})
		})
	}
}

// The doubt ends with its window if no write follows.
func TestDoubtOfADroppedWriteEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.answer = landsLate("late", timeout+lateWindow/2)
		w := r.put(key("k"), "late")
		time.Sleep(linger + timeout + backoffInitial/4)
		if _, err := r.flusher.Drop(t.Context(), key("k"), w.Seq); err != nil {
			t.Fatal(err)
		}
		r.wantState(key("k"), "", true)
		asked := len(r.requests(anything))
		time.Sleep(lateWindow + time.Second)
		r.wantState(key("k"), "", false)
		if n := len(r.requests(anything)); n != asked {
			t.Errorf("upstream was asked %d times more", n-asked)
		}
		r = r.reopen()
		synctest.Wait()
		if doubts, err := r.journal.InDoubt(); err != nil || len(doubts) > 0 {
			t.Errorf("later in doubt: %v, %v", doubts, err)
		}
	})
}
