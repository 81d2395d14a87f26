package journal_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// expectThen checks what the entries of the namespace were at a time: "key: then (gap) of authors".
func expectThen(t *testing.T, j *journal.Journal, at float64, want ...string) {
	t.Helper()
	var got []string
	_, err := j.History.ChangedSince(t.Context(), "ns", "", at, func(_ uint64, c *journal.Changed) (bool, error) {
		text := fmt.Sprint(c.Key, ": ", c.Then.Op, " ", c.Then.Value)
		switch {
		case c.Gap != "":
			text = c.Key + ": " + string(c.Gap)
		case c.Same():
			text = c.Key + ": same"
		}
		if c.Elsewhere {
			text += " elsewhere"
		}
		got = append(got, text)
		one, changed, err := j.History.ChangedEntry(c.ID, at)
		if no(t, err); !changed || one.Seq != c.Seq || one.Gap != c.Gap || one.Then != c.Then {
			t.Errorf("alone: %+v, in the walk %+v", one, c)
		}
		return true, nil
	})
	no(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("at %f: %q, want %q", at, got, want)
	}
}

// The state at a time is the newest version that was written by then and that upstream has not refused.
func TestThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		j := open(t, fs)
		a, b, c := key("a"), key("b"), key("c")
		put(t, j, a, "1")
		settle(t, j, a)
		put(t, j, b, "b1")
		settle(t, j, b)
		no(t, second(j.Fill(c, &journal.Observation{Value: "theirs", CreatedAt: 1, UpdatedAt: 2}, always)))
		time.Sleep(time.Minute)
		put(t, j, a, "superseded")
		at := nowSeconds()
		time.Sleep(time.Minute)
		no(t, j.DeadLetter(put(t, j, b, "refused"), journal.Failure{Reason: "no"}))
		put(t, j, a, "2")
		remove(t, j, c)
		put(t, j, key("unread"), "x")
		late := nowSeconds()
		time.Sleep(time.Minute)
		remove(t, j, a)
		put(t, j, c, "theirs")
		put(t, j, b, "b3")
		for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
			expectThen(t, j, at, "a: put superseded", "b: put b1", "c: same", "unread: unread")
			expectThen(t, j, at-30, "a: put 1", "b: put b1", "c: same", "unread: unread")
			expectThen(t, j, late, "a: put 2", "b: put b1", "c: delete ")
			expectThen(t, j, nowSeconds())
		}
	})
}

// An entry without which upstream was last seen was absent, whenever that was, and so is one that upstream has created
// since.
func TestThenOfANewEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		time.Sleep(time.Minute)
		no(t, j.BeginListing("ns").Commit(rows("listed"), true))
		time.Sleep(time.Minute)
		at := nowSeconds() - 90 // before the listing
		late := nowSeconds()
		time.Sleep(time.Minute)
		put(t, j, key("pending"), "1")
		put(t, j, key("listed"), "1")
		put(t, j, key("settled"), "1")
		settle(t, j, key("settled"))
		remove(t, j, key("twice"))
		put(t, j, key("twice"), "1")
		expectThen(t, j, at, "listed: unread", "pending: delete ", "settled: delete ", "twice: delete ")
		expectThen(t, j, late, "listed: unread", "pending: delete ", "settled: delete ", "twice: delete ")
		o := observed("1")
		o.CreatedAt, o.UpdatedAt = nowSeconds(), nowSeconds()
		no(t, second(j.Fill(key("settled"), o, always)))
		no(t, j.BeginListing("ns").Commit(nil, false)) // it may lack entries
		expectThen(t, j, at, "listed: unread", "pending: unread", "settled: delete ", "twice: unread")
	})
}

// A listing that had the entry proves nothing once a delete has settled, or once versions of after it were removed.
func TestThenOfAnEntryThatAListingLacksByNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		no(t, j.BeginListing("ns").Commit(rows("deleted", "again", "replaced"), true))
		time.Sleep(time.Minute)
		at := nowSeconds()
		time.Sleep(time.Minute)
		for _, name := range []string{"deleted", "again"} {
			remove(t, j, key("%s", name))
			settle(t, j, key("%s", name))
		}
		put(t, j, key("again"), "1")
		settle(t, j, key("again"))
		put(t, j, key("new"), "1")
		remove(t, j, key("new"))
		put(t, j, key("new"), "2")
		put(t, j, key("new2"), "1")
		settle(t, j, key("new2"))
		put(t, j, key("gone"), "1")
		remove(t, j, key("gone"))
		settle(t, j, key("gone"))
		no(t, j.Fence.KeepOverwritten(put(t, j, key("replaced"), "1").ID, *observed("theirs")))
		remove(t, j, key("replaced"))
		settle(t, j, key("replaced"))
		for _, at := range []float64{at, at - 70} { // after and before the listing
			expectThen(t, j, at, "again: unread", "deleted: unread", "gone: same", "new: delete ", "new2: delete ", "replaced: unread")
		}
		time.Sleep(time.Minute)
		put(t, j, key("new2"), "2")
		put(t, j, key("other"), "1")
		put(t, j, key("other"), "2")
		expectThen(t, j, nowSeconds()-1, "new2: put 1", "other: delete ")
		no(t, j.BoundHistory(1))
		expectThen(t, j, nowSeconds())
		expectThen(t, j, at, "again: forgotten", "new: forgotten", "new2: forgotten", "other: forgotten")
		expectThen(t, j, nowSeconds()-1, "new2: put 1", "other: forgotten")
		time.Sleep(time.Minute)
		put(t, j, key("later"), "1")
		expectThen(t, j, nowSeconds()-30, "later: forgotten") // it may have been written after the listing
		no(t, j.BeginListing("ns").Commit(rows("again", "new", "new2", "other"), true))
		expectThen(t, j, nowSeconds()-30, "later: delete ")
		expectThen(t, j, at, "again: forgotten", "later: forgotten", "new: forgotten", "new2: forgotten", "other: forgotten") // it may have been there, too
	})
}

// A listing that lacks an entry proves nothing for a time at which upstream says by now that it was there, nor if a write
// has overwritten another host's state: upstream is asked what that was.
func TestThenOfAnEntryThatAListingLackedInError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		before := nowSeconds()
		time.Sleep(time.Minute)
		at := nowSeconds()
		time.Sleep(time.Minute)
		no(t, j.BeginListing("ns").Commit(nil, true))
		time.Sleep(time.Minute)
		put(t, j, key("shown"), "1")
		settle(t, j, key("shown"))
		put(t, j, key("new"), "1")
		settle(t, j, key("new"))
		no(t, j.Fence.KeepOverwritten(put(t, j, key("overwrote"), "1").ID, *observed("theirs")))
		settle(t, j, key("overwrote"))
		expectThen(t, j, at, "new: delete ", "overwrote: unread", "shown: delete ")
		for name, created := range map[string]float64{"shown": before, "new": at + 100} {
			o := observed("1")
			o.CreatedAt, o.UpdatedAt = created, nowSeconds()
			no(t, second(j.Fill(key("%s", name), o, always)))
		}
		expectThen(t, j, at, "new: delete ", "overwrote: unread", "shown: unread")
	})
}

// Where a version was removed or is damaged, no older one takes its place.
func TestThenWithGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		a, b := key("a"), key("b")
		put(t, j, a, "1")
		settle(t, j, a)
		put(t, j, b, "1")
		settle(t, j, b)
		time.Sleep(time.Minute)
		put(t, j, a, "removed")
		damaged := put(t, j, b, "damaged")
		settle(t, j, b)
		at := nowSeconds()
		time.Sleep(time.Minute)
		put(t, j, a, "2")
		put(t, j, b, "2")
		no(t, j.Flip(journal.VersionKey(b, damaged.Seq)))
		expectThen(t, j, at, "a: put removed", "b: damaged")
		no(t, j.BoundHistory(1))
		versions(t, j, a, 1, 5)
		expectThen(t, j, at, "a: forgotten", "b: damaged")
		expectThen(t, j, at-61, "a: forgotten", "b: damaged")
	})
}

// A state that another host has written since is noticed, and the same value shown again is none.
func TestThenWithAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		a, b := key("a"), key("b")
		for _, id := range []journal.ID{a, b} {
			no(t, j.Settle(put(t, j, id, "1")))
		}
		at := nowSeconds()
		time.Sleep(time.Minute)
		no(t, j.Settle(put(t, j, b, "2")))
		no(t, j.DropCopies())
		for id, value := range map[journal.ID]string{a: "theirs", b: "2"} {
			no(t, second(j.Fill(id, &journal.Observation{Value: value, CreatedAt: 1, UpdatedAt: nowSeconds()}, always)))
		}
		expectThen(t, j, at-1, "a: forgotten elsewhere", "b: forgotten elsewhere") // DropCopies has removed the versions
		c := key("c")
		no(t, j.Settle(put(t, j, c, "1")))
		at = nowSeconds()
		time.Sleep(time.Minute)
		no(t, j.Settle(put(t, j, c, "2")))
		no(t, j.Evict(1))
		no(t, second(j.Fill(c, &journal.Observation{Value: "2", CreatedAt: 1, UpdatedAt: nowSeconds()}, always)))
		expectThen(t, j, at, "c: put 1")
	})
}

// A clock that was set back changes nothing about the order of the versions.
func TestThenAfterTheClockWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		a := key("a")
		now := nowSeconds()
		no(t, second(j.Fill(a, &journal.Observation{Value: "ahead", CreatedAt: 1, UpdatedAt: now + 1000}, always)))
		time.Sleep(time.Minute)
		put(t, j, a, "2")
		at := nowSeconds()
		time.Sleep(time.Minute)
		put(t, j, a, "3")
		expectThen(t, j, at, "a: put 2")
		expectThen(t, j, now, "a: unread elsewhere")
	})
}

// What a namespace was before it was sealed, anybody could write. Since then it is what was written since, and it began
// empty.
func TestThenOfANamespaceThatBecameSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem())
		for _, key := range []string{"a", "b"} {
			no(t, second(j.Fill(journal.ID{Namespace: "ns", Key: key}, shown("planted", nowSeconds()), always)))
		}
		at := nowSeconds()
		time.Sleep(time.Minute)
		no(t, j.Rename("ns"))
		if n, err := j.History.Before("ns"); err != nil || n != 2 {
			t.Errorf("the last version before is %d, %v", n, err)
		}
		sealed := nowSeconds()
		time.Sleep(time.Minute)
		put(t, j, key("a"), "1")
		settle(t, j, key("a"))
		first := nowSeconds()
		time.Sleep(time.Minute)
		put(t, j, key("a"), "2")
		settle(t, j, key("a"))
		expectThen(t, j, at, "a: unsealed")
		expectThen(t, j, sealed, "a: delete ")
		expectThen(t, j, first, "a: put 1")
	})
}
