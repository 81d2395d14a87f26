package journal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/botwired/botwired/journal"
)

// contract 7: upstream may hold a state that readers have seen since the copy was made.
func TestBuriedAfterItWasSent(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	a := key("a")
	put(t, j, a, "settled")
	settle(t, j, a)
	no(t, j.BeginListing("ns").Commit(rows("a", "b"), true))
	w := put(t, j, a, "refused")
	early := j.BeginListing("ns")
	no(t, j.DeadLetter(sent(t, j, w), journal.Failure{Status: 422, Reason: "no"}))
	check(t, j)
	if err := early.Commit(rows("a"), true); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("a listing from before: %v", err)
	}
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		expect(t, j, a, journal.Unknown, "")
		l, ok, err := j.Listing("ns", allRows)
		no(t, err)
		if !ok || l.Complete || time.Since(l.FetchedAt) < time.Hour || len(l.Rows) != 1 || l.Rows[0].Key != "b" {
			t.Errorf("the listing is %+v", l)
		}
		if n := j.Stats().DeadLetters; n != 1 {
			t.Errorf("%d dead letters", n)
		}
	}
	no(t, j.BeginListing("ns").Commit(rows("a"), true))
	if l, _, err := j.Listing("ns", allRows); err != nil || !l.Complete || len(l.Rows) != 1 {
		t.Errorf("the next listing is %+v, %v", l, err)
	}
}

// The journal announces a pending write that an earlier process has sent to a subscriber that comes after the open.
// Otherwise a flush would not wait for the write.
func TestSentWriteIsAnnounced(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	sent(t, j, put(t, j, key("sent"), "1"))
	put(t, j, key("unsent"), "1")
	j = reopen(t, crash(fs))
	announced := make(map[journal.ID]uint64)
	j.Subscribe(func(c journal.Change) {
		if c.Written {
			announced[c.ID] = c.Seq
		}
	})
	no(t, j.Run(t.Context()))
	if diff := cmp.Diff(map[journal.ID]uint64{key("sent"): 1, key("unsent"): 2}, announced); diff != "" {
		t.Errorf("announced (-want +got):\n%s", diff)
	}
}

// A listing counts as old when one of its entries may have changed unseen, even if it was confirmed repeatedly. The
// next listing replaces it even if it shows the same.
func TestListingOfWhatMayHaveChanged(t *testing.T) {
	fs := vfs.NewCrashableMem()
	j := open(t, fs)
	for range 2 {
		no(t, j.BeginListing("ns").Commit(rows("b"), false))
	}
	age := func(j *journal.Journal) time.Duration {
		t.Helper()
		l, ok, err := j.Listing("ns", allRows)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return time.Since(l.FetchedAt)
	}
	w := put(t, j, key("a"), "refused")
	no(t, j.DeadLetter(sent(t, j, w), journal.Failure{Status: 422, Reason: "no"}))
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		if age(j) < time.Hour {
			t.Error("the listing from before is believed")
		}
	}
	no(t, j.BeginListing("ns").Commit(rows("b"), false))
	for _, j := range []*journal.Journal{j, open(t, crash(fs))} {
		if age(j) > time.Hour {
			t.Error("the listing from afterwards is not believed")
		}
	}
}
