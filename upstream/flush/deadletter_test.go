package flush_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/botwired/botwired/journal"
)

// A dead letter may follow a write that upstream may or may not hold. Readers have seen both, and must
// not see the older settled copy again (contract 7).
func TestADeadLetterLeavesNoOldCopy(t *testing.T) {
	for name, test := range map[string]struct {
		first reply
		then  func(*rig) *rig // until the write that becomes a dead letter is put
	}{
		"unanswered": {reply{hang: true, applied: true}, func(r *rig) *rig { return r }},
		"after a restart": {reply{hang: true, applied: true}, func(r *rig) *rig {
			time.Sleep(time.Second)
			return r.reopen()
		}},
		"failed over": {reply{status: http.StatusInternalServerError, applied: true}, func(r *rig) *rig { return r }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.put(key("k"), "settled")
				r.settleWithin(time.Second)
				list(t, r, journal.Row{Key: "k", ListBytes: 7}, journal.Row{Key: "other"})
				r.answer = func(c call) reply {
					switch c.value {
					case "first":
						return test.first
					case "dead":
						return detail(http.StatusUnprocessableEntity)
					}
					return reply{}
				}
				r.put(key("k"), "first")
				time.Sleep(linger + 60*time.Millisecond)
				r = test.then(r)
				early := r.journal.BeginListing("ns")
				r.put(key("k"), "dead")
				r.settleWithin(2 * time.Minute)
				if n := r.journal.Stats().DeadLetters; n != 1 {
					t.Fatalf("%d dead letters", n)
				}
				if state, err := r.journal.Lookup(key("k")); err != nil || state.Kind != journal.Unknown {
					t.Errorf("it is %+v, %v, and upstream would have to be asked", state, err)
				}
				wantUnlisted(t, r)
				if err := early.Commit([]journal.Row{{Key: "k"}}, true); !errors.Is(err, journal.ErrChanged) {
					t.Errorf("a listing from before: %v", err)
				}
			})
		})
	}
}

// wantUnlisted checks that the known listing is old, incomplete and lacks k.
func wantUnlisted(t *testing.T, r *rig) {
	t.Helper()
	l, ok, err := r.journal.Listing("ns", 1000)
	if err != nil || !ok {
		t.Fatalf("no listing: %v", err)
	}
	if len(l.Rows) != 1 || l.Rows[0].Key != "other" || l.Complete || time.Since(l.FetchedAt) < time.Hour {
		t.Errorf("the listing is %+v", l)
	}
}

func list(t *testing.T, r *rig, rows ...journal.Row) {
	t.Helper()
	if err := r.journal.BeginListing("ns").Commit(rows, true); err != nil {
		t.Fatal(err)
	}
}

func TestDeadLetterWithoutDoubtKeepsTheCopy(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.put(key("k"), "settled")
		r.settleWithin(time.Second)
		r.answer = func(call) reply { return detail(http.StatusUnprocessableEntity) }
		r.put(key("k"), "dead")
		r.settleWithin(time.Second)
		if state, err := r.journal.Lookup(key("k")); err != nil || state.Value != "settled" {
			t.Errorf("it is %+v, %v", state, err)
		}
	})
}
