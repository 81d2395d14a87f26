package journal_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/botwired/botwired/journal"
)

func TestPendingWriteIsRead(t *testing.T) {
	j := open(t, vfs.NewMem())
	a := key("a")
	expect(t, j, a, journal.Unknown, "")
	first := put(t, j, a, "1")
	second := put(t, j, a, "2")
	if second.Seq <= first.Seq {
		t.Errorf("sequence numbers %d, %d", first.Seq, second.Seq)
	}
	if state := expect(t, j, a, journal.Value, "2"); state.Seq != second.Seq || !state.ConfirmedAt.IsZero() {
		t.Errorf("state is %+v", state)
	}
	remove(t, j, a)
	expect(t, j, a, journal.Gone, "")
	check(t, j)
	if st := j.Stats(); st.Pending != 1 || st.LastSeq != 3 || st.Namespaces["ns"].Pending != 1 {
		t.Errorf("stats are %+v", st)
	}
}

func TestSettledWriteLeavesThePendingSet(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a, b := key("a"), key("b")
	put(t, j, a, "1")
	put(t, j, b, "1")
	settle(t, j, a)
	settle(t, j, b)
	remove(t, j, b)
	settle(t, j, b)
	check(t, j)
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		if state := expect(t, j, a, journal.Settled, "1"); state.Seq != 0 || state.ConfirmedAt.IsZero() {
			t.Errorf("state is %+v", state)
		}
		expect(t, j, b, journal.Unknown, "")
		if pending, err := overlayOf(j, "ns"); len(pending) != 0 || err != nil {
			t.Errorf("pending are %v, %v", pending, err)
		}
		if _, ok, err := j.Newest(a); ok || err != nil {
			t.Errorf("Newest = %v, %v", ok, err)
		}
	}
}

func TestSettlingAnOlderWriteLeavesTheNewerPending(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a := key("a")
	put(t, j, a, "1")
	older, _, err := j.Newest(a)
	no(t, err)
	put(t, j, a, "2")
	no(t, j.Settle(older))
	check(t, j)
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		expect(t, j, a, journal.Value, "2")
	}
	settle(t, j, a)
	expect(t, j, a, journal.Settled, "2")
}

func TestDeadLetterRetryDiscard(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a, b := key("a"), key("b")
	put(t, j, a, "old")
	settle(t, j, a)
	wa, wb := put(t, j, a, "new"), put(t, j, b, "b")
	no(t, j.DeadLetter(wa, journal.Failure{Status: 422, Reason: "no such"}))
	no(t, j.DeadLetter(wb, journal.Failure{Status: 400, Reason: "bad"}))
	check(t, j)
	expect(t, j, a, journal.Settled, "old")
	expect(t, j, b, journal.Unknown, "")

	j = open(t, crash(fs))
	letters, err := j.DeadLetters(0, 1000)
	no(t, err)
	if len(letters) != 2 || letters[0].Seq != wa.Seq || letters[1].Status != 400 ||
		letters[1].Error != "bad" || letters[0].ID != a || letters[0].Value != "" || letters[0].RefusedAt == 0 {
		t.Fatalf("dead letters are %+v", letters)
	}
	again, err := j.Retry(wa.Seq, journal.AnyWrite)
	no(t, err)
	if again.Seq <= wb.Seq {
		t.Errorf("retried as %d after %d", again.Seq, wb.Seq)
	}
	expect(t, j, a, journal.Value, "new")
	no(t, j.Discard(wb.Seq))
	for _, err := range []error{j.Discard(wb.Seq), second(j.Retry(wa.Seq, journal.AnyWrite)), second(j.Retry(999, journal.AnyWrite))} {
		if !errors.Is(err, journal.ErrNoDeadLetter) {
			t.Errorf("error is %v", err)
		}
	}
	check(t, j)
	if st := j.Stats(); st.DeadLetters != 0 || st.DeadBytes != 0 || st.Pending != 1 {
		t.Errorf("stats are %+v", st)
	}
}

func second[T any](_ T, err error) error { return err }

func TestSupersededWriteLeavesNoDeadLetter(t *testing.T) {
	j := open(t, vfs.NewMem())
	a := key("a")
	older := put(t, j, a, "1")
	put(t, j, a, "2")
	no(t, j.DeadLetter(older, journal.Failure{Status: 400, Reason: "bad"}))
	expect(t, j, a, journal.Value, "2")
	if letters, err := j.DeadLetters(0, 1000); len(letters) != 0 || err != nil {
		t.Errorf("dead letters are %v, %v", letters, err)
	}
	check(t, j)
}

func TestConditionSeesTheNewestWrite(t *testing.T) {
	j := open(t, vfs.NewMem())
	a := key("a")
	w := put(t, j, a, "1")
	var asked []uint64
	write := func(id journal.ID, ok bool) error {
		return second(j.Append(journal.NewWrite{ID: id, Op: journal.Delete, If: func(newest uint64) bool {
			asked = append(asked, newest)
			return ok
		}}))
	}
	if err := write(a, false); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("error is %v", err)
	}
	expect(t, j, a, journal.Value, "1")
	no(t, write(a, true))
	no(t, write(key("b"), true))
	if diff := cmp.Diff([]uint64{w.Seq, w.Seq, 0}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestPendingListIsOldestFirst(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	for _, id := range []journal.ID{{Namespace: "z", Key: "1"}, {Namespace: "b", Key: "2"}, {Namespace: "z", Key: "0"}} {
		put(t, j, id, "x")
	}
	put(t, j, journal.ID{Namespace: "z", Key: "1"}, "longer") // keeps its place in the list
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		var got []string
		for _, p := range j.PendingList("", 10) {
			got = append(got, p.Namespace+p.Key)
		}
		if diff := cmp.Diff([]string{"z1", "b2", "z0"}, got); diff != "" {
			t.Error(diff)
		}
		if l := j.PendingList("z", 1); len(l) != 1 || l[0].Key != "1" || l[0].Bytes != len("longer") {
			t.Errorf("list is %+v", l)
		}
		if l := j.PendingList("", -1); len(l) != 0 {
			t.Errorf("list is %+v", l)
		}
		if st := j.Stats(); st.OldestSince != j.PendingList("", 1)[0].Since {
			t.Errorf("stats are %+v", st)
		}
	}
}

// A short list is a prefix of the long one, even after the oldest write of a namespace has left.
func TestPendingListOfManyNamespaces(t *testing.T) {
	j := open(t, vfs.NewMem())
	const namespaces, each = 40, 3
	for i := range namespaces * each {
		put(t, j, journal.ID{Namespace: fmt.Sprint("ns-", i*7%namespaces), Key: fmt.Sprint(i)}, "x")
	}
	for i, p := range j.PendingList("", namespaces*each) {
		if i%5 < 2 {
			w, _, err := j.Newest(p.ID)
			no(t, err)
			no(t, j.Settle(w))
		}
	}
	all := j.PendingList("", namespaces*each)
	if len(all) != namespaces*each*3/5 {
		t.Fatalf("%d writes are pending", len(all))
	}
	for limit := range len(all) + 2 {
		if diff := cmp.Diff(all[:min(limit, len(all))], j.PendingList("", limit), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the first %d: %s", limit, diff)
		}
	}
}

// The age of an entry that is written all the time does not grow forever: its settled writes no longer
// count.
func TestOldestAgeOfABusyEntry(t *testing.T) {
	j := open(t, vfs.NewMem())
	busy, quiet := key("busy"), key("quiet")
	put(t, j, busy, "1")
	put(t, j, quiet, "1")
	first, _, err := j.Newest(busy)
	no(t, err)
	sent := put(t, j, busy, "2")
	put(t, j, busy, "3")
	no(t, j.Settle(first))
	if l := j.PendingList("", 1); l[0].ID != busy {
		t.Errorf("list is %+v", l)
	}
	no(t, j.Settle(sent))
	l := j.PendingList("", 2)
	if len(l) != 2 || l[0].ID != quiet || l[1].Since < sent.UpdatedAt {
		t.Errorf("list is %+v", l)
	}
	if got := j.Stats().OldestSince; got != l[0].Since {
		t.Errorf("oldest is %v", got)
	}
}
