package memory

import (
	"strings"
	"testing"

	"github.com/botwired/botwired/journal"
)

// A repair that a full journal refuses is made at a later read, though upstream shows the same older version.
func TestARefusedRepairIsMadeLater(t *testing.T) {
	r := newRig(t, func(stored *journal.Options, _ *Options) { stored.MaxBytes = 8 << 10 })
	overwritten, large := id("private", "key"), id("private", "large")
	r.put(overwritten, "newer")
	w, _, err := r.journal.Newest(overwritten)
	noError(t, err)
	w.MadeAt = 20
	noError(t, r.journal.Settle(w))
	for err == nil { // until the journal is full
		_, err = r.Do(t.Context(), &Request{Verb: PutEntry, ID: large, Value: strings.Repeat("x", 100)})
		large.Key += "r"
	}
	state, err := r.journal.Lookup(overwritten)
	noError(t, err)
	older := &journal.Observation{Value: "older", MadeAt: 10, UpdatedAt: 30}
	noError(t, r.repairs.repair(r.Memory, overwritten, older, &state))
	if _, pending, _ := r.journal.Newest(overwritten); pending {
		t.Fatal("the journal is not full")
	}
	for key := "large"; key != large.Key; key += "r" {
		if _, ok, _ := r.journal.Newest(id("private", key)); ok {
			r.settle(id("private", key))
		}
	}
	noError(t, r.repairs.repair(r.Memory, overwritten, older, &state))
	if w, ok, err := r.journal.Newest(overwritten); !ok || err != nil || w.Value != "newer" {
		t.Errorf("the newer version is not written again: %+v, %v", w, err)
	}
}
