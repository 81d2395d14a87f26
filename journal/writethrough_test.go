package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

func trial(id journal.ID, bytes int) journal.NewWrite {
	return journal.NewWrite{ID: id, Op: journal.Put, Value: strings.Repeat("v", bytes), ListBytes: bytes}
}

// Admits refuses a write before it is sent, and Append accepts one that upstream holds.
func TestAdmits(t *testing.T) {
	sizes, within := limited(100)
	j := open(t, vfs.NewMem(), within)
	show(t, j, key("settled"), 40)
	no(t, tryPut(j, key("pending"), 40))
	sized(t, sizes, 80)
	for range 2 { // a trial counts nothing
		no(t, j.WriteThrough.Admits(trial(key("new"), 20)))
		no(t, j.WriteThrough.Admits(trial(key("settled"), 60)))
		no(t, j.WriteThrough.Admits(trial(key("pending"), 60)))
		no(t, j.WriteThrough.Admits(journal.NewWrite{ID: key("pending"), Op: journal.Delete}))
		for _, w := range []journal.NewWrite{trial(key("new"), 21), trial(key("settled"), 61), trial(key("pending"), 61)} {
			if full := refusedAsFull(t, j.WriteThrough.Admits(w)); full.Bytes != 80 || full.Grows != 21 {
				t.Errorf("%s: %v", w.ID, full)
			}
		}
		sized(t, sizes, 80)
	}
	if n := sizes.Namespaces(); n != 1 {
		t.Errorf("%d namespaces are counted", n)
	}
	held := trial(key("new"), 21)
	held.Held = true
	no(t, second(j.Append(held)))
	sized(t, sizes, 101)

	j = open(t, vfs.NewMem(), budget(2*one))
	no(t, write(j, key("a"), 100))
	no(t, j.WriteThrough.Admits(trial(key("b"), 100)))
	if err := j.WriteThrough.Admits(trial(key("b"), 101)); !errors.Is(err, journal.ErrFull) {
		t.Errorf("the error is %v", err)
	}
}

// contract 13: a write that was never acknowledged has no receipt, and the write that it replaced has
// been superseded.
func TestReceiptsOfWritesThrough(t *testing.T) {
	fs := vfs.NewCrashableMem()
	sizes, within := limited(1000)
	j := open(t, fs, within)
	none := journal.Write{}
	replaced := put(t, j, key("replaced"), "old")
	held := trial(key("replaced"), 3)
	held.Held = true
	through, err := j.Append(held)
	no(t, err)
	no(t, j.Settle(through))
	waits := put(t, j, key("waits"), "kept")
	no(t, j.MarkSent(waits))
	j.WriteThrough.Doubt(key("lapsed"))
	no(t, j.MarkSent(journal.Write{ID: key("lapsed")}))
	no(t, j.WriteThrough.EndDoubt(key("lapsed")))
	no(t, j.WriteThrough.EndDoubt(key("waits")))
	overtaken := put(t, j, key("overtaken"), "old")
	no(t, j.WriteThrough.Supersede(key("overtaken"), overtaken.Seq))
	no(t, j.WriteThrough.Supersede(key("nothing"), 0))
	newer := put(t, j, key("newer"), "acknowledged meanwhile")
	no(t, j.WriteThrough.Supersede(key("newer"), newer.Seq-1))
	sized(t, sizes, int64(3+len("kept")+len("acknowledged meanwhile")))
	expect(t, j, key("overtaken"), journal.Unknown, "")
	expect(t, j, key("newer"), journal.Value, "acknowledged meanwhile")
	for range 2 {
		expectReceipt(t, j, replaced, journal.ReceiptSuperseded, through, "")
		expectReceipt(t, j, through, journal.ReceiptSettled, none, "")
		expectReceipt(t, j, waits, journal.ReceiptPending, none, "")
		expectReceipt(t, j, overtaken, journal.ReceiptSuperseded, none, "upstream holds a later write, for which the journal had no room")
		expectReceipt(t, j, newer, journal.ReceiptPending, none, "")
		if kept := j.Stats().Receipts; kept != 3 {
			t.Errorf("%d receipts are kept, want 3", kept)
		}
		no(t, j.CheckReceipts())
		check(t, j)
		j = open(t, crash(fs))
	}
}

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
