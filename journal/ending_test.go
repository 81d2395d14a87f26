package journal_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// endings records a journal's endings in order, and what was written before each.
func endings(j *journal.Journal) (told func() []any) {
	var all []any
	j.Subscribe(func(c journal.Change) {
		if c.Written && !c.Found {
			all = append(all, c.Seq)
		}
		if c.Ended.Seq != 0 {
			all = append(all, c.Ended)
		}
	})
	return func() []any {
		now := all
		all = nil
		return now
	}
}

// contract 13: the subscriber gets each write's ending once, and it matches the receipt.
func TestEndings(t *testing.T) {
	fs := vfs.NewMem()
	j := reopen(t, fs)
	told := endings(j)
	no(t, j.Run(t.Context()))
	settled := put(t, j, key("settled"), "häl")
	no(t, j.Settle(settled))
	old := put(t, j, key("k"), "1")
	gone := remove(t, j, key("k"))
	no(t, j.Settle(old)) // upstream has it, and a later write has replaced it here
	no(t, j.Settle(gone))
	dead, dropped, beaten := put(t, j, key("dead"), "1"), put(t, j, key("dropped"), "12"), put(t, j, key("beaten"), "1")
	no(t, j.DeadLetter(dead, journal.Failure{Status: 413, Reason: "too big"}))
	no(t, j.DeadLetter(dropped, journal.Failure{Kind: journal.Dropped, Reason: "by hand"}))
	no(t, j.Fence.Lose(beaten, foreign("theirs", 20), "later"))
	again, err := j.Retry(dead.Seq, journal.AnyWrite)
	no(t, err)
	no(t, j.Settle(again))
	want := []any{
		settled.Seq, journal.Ending{Seq: settled.Seq, Op: journal.Put, Bytes: 4, State: journal.ReceiptSettled},
		old.Seq, gone.Seq, journal.Ending{Seq: old.Seq, Op: journal.Put, Bytes: 1, State: journal.ReceiptSuperseded, By: gone.Seq},
		journal.Ending{Seq: gone.Seq, Op: journal.Delete, State: journal.ReceiptSettled},
		dead.Seq, dropped.Seq, beaten.Seq,
		journal.Ending{Seq: dead.Seq, Op: journal.Put, Bytes: 1, State: journal.ReceiptDead, Reason: "too big"},
		journal.Ending{Seq: dropped.Seq, Op: journal.Put, Bytes: 2, State: journal.ReceiptDead, Dropped: true, Reason: "by hand"},
		journal.Ending{Seq: beaten.Seq, Op: journal.Put, Bytes: 1, State: journal.ReceiptSuperseded, Reason: "later"},
		again.Seq, journal.Ending{Seq: again.Seq, Op: journal.Put, Bytes: 1, State: journal.ReceiptSettled},
	}
	got := told()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, each := range got {
		end, ok := each.(journal.Ending)
		if !ok || end.Seq == dead.Seq { // its receipt now says that it was retried
			continue
		}
		r, err := j.Receipts.Read(t.Context(), end.Seq)
		no(t, err)
		if r.State != end.State || r.By != end.By || r.Reason != end.Reason || r.Op != end.Op {
			t.Errorf("the receipt of %+v is %+v", end, r)
		}
	}
}

// A write that the journal finds at the start does not count as new. It ends like any other.
func TestEndingOfAFoundWrite(t *testing.T) {
	fs := vfs.NewMem()
	before := open(t, fs)
	w := put(t, before, key("k"), "1")
	no(t, before.Close())
	j := reopen(t, fs)
	told := endings(j)
	no(t, j.Run(t.Context()))
	if got := told(); got != nil {
		t.Errorf("it tells of %v", got)
	}
	no(t, j.Settle(w))
	want := []any{journal.Ending{Seq: w.Seq, Op: journal.Put, Bytes: 1, State: journal.ReceiptSettled}}
	if diff := cmp.Diff(want, told()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
