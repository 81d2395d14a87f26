package journal_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/botwired/botwired/journal"
)

// contract 9: an entry that a complete listing lacks, and that no write has made since, is absent as of
// that listing, even after a crash.
func TestAbsenceByListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		j := open(t, fs)
		a, b := key("a"), key("b")
		expect(t, j, a, journal.Unknown, "")
		no(t, j.BeginListing("ns").Commit(rows("b"), false))
		expect(t, j, a, journal.Unknown, "")
		time.Sleep(time.Minute)
		at := time.Now()
		no(t, j.BeginListing("ns").Commit(rows("b"), true))
		time.Sleep(time.Minute)
		for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
			if state := expect(t, j, a, journal.Absent, ""); !state.ConfirmedAt.Equal(at.Round(0)) || state.Seq != 0 {
				t.Errorf("state is %+v, want it confirmed at %v", state, at)
			}
			if state := expect(t, j, b, journal.Unknown, ""); !state.Listed {
				t.Error("nobody knows that a listed entry exists")
			}
			expect(t, j, journal.ID{Namespace: "other", Key: "a"}, journal.Unknown, "")
		}
		time.Sleep(time.Minute)
		at = time.Now()
		no(t, j.BeginListing("ns").Commit(rows("b"), true)) // it changes nothing on disk
		if state := expect(t, j, a, journal.Absent, ""); !state.ConfirmedAt.Equal(at.Round(0)) {
			t.Errorf("confirmed at %v, want %v", state.ConfirmedAt, at)
		}
	})
}

// contract 7: a copy is outdated once upstream has listed a later state of another host's, until upstream answers for it
// again. A listing from before the copy, and one that shows the same state, change nothing.
func TestACopyThatAListingOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		j := open(t, fs)
		theirs, mine := key("theirs"), key("mine")
		fill := func(value string, at float64) {
			t.Helper()
			o := journal.Observation{Value: value, UpdatedAt: at, ListBytes: len(value)}
			if _, err := j.Fill(theirs, &o, func() bool { return true }); err != nil {
				t.Fatal(err)
			}
		}
		list := func(at float64) {
			t.Helper()
			time.Sleep(time.Second)
			rows := []journal.Row{{Key: "theirs", ListBytes: 1, UpdatedAt: at}}
			if state, err := j.Lookup(mine); err != nil || state.Kind == journal.Settled {
				rows = append(rows, journal.Row{Key: "mine", ListBytes: state.ListBytes, UpdatedAt: at + 100})
			}
			no(t, j.BeginListing("ns").Commit(rows, true))
			time.Sleep(time.Second)
		}
		want := func(when string, outdated bool) {
			t.Helper()
			for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
				state, err := j.Lookup(theirs)
				if err != nil || state.Kind != journal.Settled || state.Outdated != outdated {
					t.Errorf("%s, the copy is %+v (%v)", when, state, err)
				}
			}
		}
		early := j.BeginListing("ns")
		time.Sleep(time.Second)
		fill("1", 10)
		no(t, early.Commit([]journal.Row{{Key: "theirs", ListBytes: 1, UpdatedAt: 9}}, true))
		want("after a listing from before it", false)
		list(10)
		want("listed as it is", false)
		list(20)
		want("overtaken", true)
		list(20)
		want("overtaken, and listed again", true)
		fill("2", 20)
		want("known again", false)
		early = j.BeginListing("ns")
		time.Sleep(time.Second)
		fill("3", 30)
		no(t, early.Commit([]journal.Row{{Key: "theirs", ListBytes: 1, UpdatedAt: 40}}, true))
		want("overtaken by an answer that was on its way before it", true)
		fill("4", 40)
		put(t, j, mine, "1")
		settle(t, j, mine)
		list(40)
		if state, err := j.Lookup(mine); err != nil || state.Outdated {
			t.Errorf("a write from here is %+v once upstream lists it (%v)", state, err)
		}
	})
}

// A write and its outcome end an absence, even if no copy is kept.
func TestAbsenceEndsWithAWrite(t *testing.T) {
	j := open(t, vfs.NewMem())
	no(t, j.BeginListing("ns").Commit(nil, true))
	a := key("a")
	put(t, j, a, "1")
	expect(t, j, a, journal.Value, "1")
	settle(t, j, a)
	expect(t, j, a, journal.Settled, "1")
	no(t, j.DropCopies())
	if state := expect(t, j, a, journal.Unknown, ""); !state.Listed {
		t.Error("an entry whose copy is gone is not listed")
	}
	remove(t, j, a)
	expect(t, j, a, journal.Gone, "")
	settle(t, j, a)
	expect(t, j, a, journal.Absent, "")

	no(t, j.DeadLetter(put(t, j, a, "2"), journal.Failure{Status: 422, Reason: "no"}))
	expect(t, j, a, journal.Absent, "")
	no(t, j.DeadLetter(sent(t, j, put(t, j, a, "3")), journal.Failure{Status: 422, Reason: "no"}))
	expect(t, j, a, journal.Unknown, "") // an earlier write may have landed
	expect(t, j, key("other"), journal.Unknown, "")
}

// contract 8: a write that settles while upstream makes a listing is not absent in it.
func TestWriteOvertakesAnAbsence(t *testing.T) {
	j := open(t, vfs.NewMem())
	a, b := key("a"), key("b")
	no(t, second(j.Fill(b, observed("1"), always)))
	fill := j.BeginListing("ns")
	put(t, j, a, "1")
	settle(t, j, a)
	remove(t, j, b)
	settle(t, j, b)
	no(t, fill.Commit(rows("b"), true))
	expect(t, j, a, journal.Settled, "1")
	expect(t, j, b, journal.Absent, "")
	no(t, j.DropCopies())
	expect(t, j, a, journal.Unknown, "")
}

// Lacks returns keys whose copy is missing or differs from the listing.
func TestLacks(t *testing.T) {
	j := open(t, vfs.NewMem())
	want := func(keys ...string) {
		t.Helper()
		got, err := j.Listings.Lacks("ns")
		no(t, err)
		if fmt.Sprint(got) != fmt.Sprint(keys) {
			t.Errorf("%q are lacking, want %q", got, keys)
		}
	}
	want()
	no(t, j.BeginListing("ns").Commit([]journal.Row{{Key: "a", ListBytes: 1, UpdatedAt: 20}, {Key: "b", ListBytes: 1, UpdatedAt: 30}}, true))
	want("a", "b")
	no(t, second(j.Fill(key("a"), &journal.Observation{Value: "1", ListBytes: 1, CreatedAt: 10, UpdatedAt: 20}, always)))
	want("b")
	put(t, j, key("b"), "2")
	want()
	put(t, j, key("c"), "3")
	settle(t, j, key("b"))
	settle(t, j, key("c"))
	want()
	// Upstream has another time for c, and another value for a.
	no(t, j.BeginListing("ns").Commit([]journal.Row{{Key: "a", ListBytes: 1, UpdatedAt: 40}, {Key: "c", ListBytes: 1, UpdatedAt: 50}}, true))
	want("a")
	no(t, j.DropCopies())
	want("a", "c")
	no(t, second(j.Fill(key("c"), &journal.Observation{Value: "3", ListBytes: 1, CreatedAt: 10, UpdatedAt: 50}, always)))
	want("a")
}
