package journal_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// Forget drops the copy that a person wants to drop, and no pending write.
func TestForgettingOneEntry(t *testing.T) {
	j := open(t, vfs.NewMem())
	for _, k := range []string{"a", "b", "c"} {
		_, err := j.Fill(key("%s", k), observed("theirs"), always)
		no(t, err)
	}
	put(t, j, key("c"), "mine")
	for k, want := range map[string]struct {
		forgotten bool
		err       error
	}{"a": {true, nil}, "c": {false, journal.ErrPending}, "unknown": {false, nil}} {
		if forgotten, err := j.Disk.Forget(key("%s", k)); forgotten != want.forgotten || !errors.Is(err, want.err) {
			t.Errorf("%s: %v, %v", k, forgotten, err)
		}
	}
	expect(t, j, key("a"), journal.Unknown, "")
	expect(t, j, key("b"), journal.Settled, "theirs")
	expect(t, j, key("c"), journal.Value, "mine")
	if again, err := j.Disk.Forget(key("a")); again || err != nil {
		t.Errorf("forgotten twice: %v, %v", again, err)
	}
	check(t, j)
}

// Upstream may not have the entries of a suspect namespace: only a person's request drops one of their
// copies.
func TestForgettingOneEntryOfASuspectNamespace(t *testing.T) {
	j := open(t, vfs.NewMem(), limits)
	rows := confirmed(t, j, "ns", 40)
	commit(t, j, "ns", true, rows...)
	commit(t, j, "ns", true)
	wantKept(t, j, "ns", 40, 40, true)
	if forgotten, err := j.Disk.Forget(key("7")); !forgotten || err != nil {
		t.Errorf("%v, %v", forgotten, err)
	}
	expect(t, j, key("8"), journal.Settled, "value")
	if state := lookup(t, j, key("7")); state.Kind == journal.Settled {
		t.Errorf("%+v", state)
	}
}

func TestDiskUsage(t *testing.T) {
	j := open(t, vfs.NewMem())
	u, err := j.Disk.Usage()
	if err != nil || u.Journal <= 0 || u.Copies < 0 || u.Free >= 0 {
		t.Errorf("%+v, %v: a file system in memory cannot tell what is free", u, err)
	}
	no(t, j.Close())
	if _, err := j.Disk.Usage(); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("once closed: %v", err)
	}
}

// The status shows since when a dead letter has been waiting for a person.
func TestOldestOpenDeadLetter(t *testing.T) {
	j := open(t, vfs.NewMem())
	wantOldest := func(want uint64) {
		t.Helper()
		if got := j.Stats().OldestOpen; got != want {
			t.Errorf("the oldest is %d, want %d", got, want)
		}
	}
	wantOldest(0)
	bury(t, j, key("dropped"), "v", journal.Dropped)
	first := bury(t, j, key("a"), "v", journal.Refused)
	second := bury(t, j, key("b"), "v", journal.Refused)
	wantOldest(first)
	no(t, j.Discard(first))
	wantOldest(second)
	no(t, j.Discard(second))
	wantOldest(0)
	wantOldest(bury(t, j, key("c"), "v", journal.Refused))
}

// The status shows how many open dead letters each namespace has, however it has come to that.
func TestOpenDeadLettersByNamespace(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs)
	want := func(want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, j.Stats().OpenIn); diff != "" {
			t.Errorf("open dead letters (-want +got):\n%s", diff)
		}
	}
	other := journal.ID{Namespace: "other", Key: "k"}
	want(map[string]int{})
	bury(t, j, key("dropped"), "v", journal.Dropped)
	want(map[string]int{})
	first := bury(t, j, key("a"), "v", journal.Refused)
	bury(t, j, key("b"), "v", journal.Refused)
	bury(t, j, other, "v", journal.Refused)
	want(map[string]int{key("a").Namespace: 2, "other": 1})
	no(t, j.Discard(first))
	want(map[string]int{key("a").Namespace: 1, "other": 1})
	no(t, j.Settle(put(t, j, other, "w"))) // supersedes the letter
	want(map[string]int{key("a").Namespace: 1})
	no(t, j.Close())
	j = open(t, fs)
	want(map[string]int{key("a").Namespace: 1})
}
