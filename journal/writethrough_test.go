package journal_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// contract 14: a dead letter does not end the doubt about its entry.
func TestDeadLetterOfAnEntryInDoubt(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a := key("a")
	put(t, j, a, "settled")
	settle(t, j, a)
	w := put(t, j, a, "unanswered")
	no(t, j.MarkSent(w))
	no(t, j.DeadLetter(w, journal.Failure{Kind: journal.Dropped, Reason: "by hand", InDoubt: true, MayLand: true}))
	check(t, j)
	for range 2 {
		if state := expect(t, j, a, journal.Unknown, ""); !state.InDoubt {
			t.Errorf("%+v, want it in doubt", state)
		}
		ids, err := j.InDoubt()
		no(t, err)
		if diff := cmp.Diff([]journal.ID{a}, entriesOf(ids)); diff != "" {
			t.Error(diff)
		}
		expectReceipt(t, j, w, journal.ReceiptDead, journal.Write{}, "by hand")
		j = open(t, crash(fs))
	}
	no(t, j.WriteThrough.EndDoubt(a))
	if state := expect(t, j, a, journal.Unknown, ""); state.InDoubt {
		t.Errorf("%+v, want no doubt", state)
	}
}
